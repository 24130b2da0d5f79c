import { defineConfig } from "vitest/config";

/** One project a tier: `meta` is what `npm run check` runs, the rest makes up `npm test`. */
const tier = (name: string, include: string[], testTimeout: number) => ({
  test: { name, include, testTimeout, hookTimeout: testTimeout },
});

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: [
      "default",
      "./scripts/skip-reporter.ts",
      ["json", { outputFile: ".cache/vitest.json" }],
    ],
    projects: [
      tier("meta", ["test/meta/**/*.test.ts"], 120_000),
      // Whatever folder a test is put into, it runs.
      tier("unit", ["test/!(meta|simulation|integration)/**/*.test.ts"], 20_000),
      tier("simulation", ["test/simulation/**/*.test.ts"], 600_000),
      tier("integration", ["test/integration/**/*.test.ts"], 600_000),
    ],
  },
});
