import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { bundle, libraries, program } from "./bundle.ts";

/**
 * Makes dist/ from src/: the compiler writes the type declarations, file by file, and the bundler
 * the JavaScript. A start reads a fifth of the files then, and no more of a library than it uses.
 */
const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");

function writeDeclarations(): void {
  const require = createRequire(import.meta.url);
  const manifestPath = require.resolve("typescript/package.json");
  const manifest = JSON.parse(readFileSync(manifestPath, "utf8")) as { bin: { tsc: string } };
  const compiler = join(manifestPath, "..", manifest.bin.tsc);
  execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.build.json")], {
    cwd: root,
    stdio: "inherit",
  });
}

async function build(): Promise<void> {
  rmSync(dist, { recursive: true, force: true });
  writeDeclarations();
  await bundle(root);
  const wanted = [...libraries.flatMap((name) => [`${name}.js`, `${name}.d.ts`]), `${program}.cjs`];
  const missing = wanted.filter((name) => !existsSync(join(dist, name)));
  if (missing.length > 0) throw new Error(`not built: ${missing.join(", ")}`);
}

try {
  await build();
} catch (error) {
  // Half a build must not be taken for one.
  rmSync(dist, { recursive: true, force: true });
  console.error(`build: ${(error as Error).message}`);
  process.exitCode = 1;
}
