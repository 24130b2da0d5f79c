import { defineConfig } from "vitest/config";

/** Tests with the real programs that `npm run peers` installs; `npm test` does without them. */
export default defineConfig({
  test: {
    name: "peers",
    include: ["test/peers/**/*.test.ts"],
    // Packs and installs the package, which tests that start programs start.
    globalSetup: ["./test/packed-package.ts"],
    testTimeout: 900_000,
    hookTimeout: 900_000,
    fileParallelism: false,
    reporters: ["default", "./scripts/skip-reporter.ts"],
  },
});
