import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/** Makes dist/ from src/: removes it, compiles, and checks that what came out can be loaded. */
const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");

/** Programs that other processes start by path; nothing imports them. */
const entryPoints = ["index.js", "testing/index.js", "cli/main.js", "engines/host/main.js"];

function compile(): void {
  const require = createRequire(import.meta.url);
  const manifestPath = require.resolve("typescript/package.json");
  const manifest = JSON.parse(readFileSync(manifestPath, "utf8")) as { bin: { tsc: string } };
  const compiler = join(manifestPath, "..", manifest.bin.tsc);
  execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.build.json")], {
    cwd: root,
    stdio: "inherit",
  });
}

/**
 * Scripts that still import `.ts`: Node loads none under node_modules, so it would fail only when
 * installed. Declarations keep the ending, and the compiler finds `x.d.ts` for `x.ts`.
 */
function leftoverEndings(): string[] {
  const importEnding = /\b(?:from|import)\s*\(?\s*["']\.{1,2}\/[^"']+\.ts["']/;
  return readdirSync(dist, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".js"))
    .filter((name) => importEnding.test(codeOf(join(dist, name))));
}

/** The file without its docstrings: their examples may name sources. */
function codeOf(path: string): string {
  return readFileSync(path, "utf8").replaceAll(/\/\*\*[\s\S]*?\*\//g, "");
}

function build(): void {
  rmSync(dist, { recursive: true, force: true });
  compile();
  const missing = entryPoints.filter((name) => !existsSync(join(dist, name)));
  if (missing.length > 0) throw new Error(`not built: ${missing.join(", ")}`);
  const leftover = leftoverEndings();
  if (leftover.length > 0) throw new Error(`imports still end in .ts: ${leftover.join(", ")}`);
}

try {
  build();
} catch (error) {
  // Half a build must not be taken for one.
  rmSync(dist, { recursive: true, force: true });
  console.error(`build: ${(error as Error).message}`);
  process.exitCode = 1;
}
