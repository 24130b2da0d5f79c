import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { dataDirectory, root } from "./setting.ts";

/**
 * Builds the package and puts it where it lies as it would when installed: in a checkout
 * `bin/sluice.cjs` would run the sources, and a build going on beside it would disturb.
 *
 * @param isKept true takes what an earlier call put there.
 * @returns its directory.
 */
export function installPackage(isKept: boolean): string {
  const directory = join(dataDirectory, "package");
  if (isKept && existsSync(join(directory, "dist"))) return directory;
  execFileSync(process.execPath, [join(root, "scripts/build.ts")], { stdio: "inherit" });
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  for (const name of ["bin", "dist", "python", "schema", "package.json"]) {
    cpSync(join(root, name), join(directory, name), { recursive: true });
  }
  return directory;
}
