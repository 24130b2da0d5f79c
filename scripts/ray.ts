import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { installBeside } from "./installing.ts";

/** The release of Ray that the tests run on, with what its jobs' environments need. */
export const rayVersion = process.env.TEST_RAY_VERSION ?? "2.60.0";
const folder = join(import.meta.dirname, `../.cache/ray-${rayVersion}`);
const python = join(folder, "bin/python");

const hasPython = () =>
  spawnSync("python3", ["-c", "import sys, venv; sys.exit(sys.version_info < (3, 10))"]).status ===
  0;

/** A Python, or why it is not there. */
type Found = { python: string; missing?: undefined } | { python?: undefined; missing: string };

/** The Python with Ray for tests with clusters, if it was made. */
export function findRay(): Found {
  if (process.platform !== "linux") {
    return { missing: "a Ray cluster of several nodes on one machine needs Linux" };
  }
  if (existsSync(python)) return { python };
  if (!hasPython()) return { missing: "Ray needs Python 3.10 or later, with venv" };
  return { missing: `ray[default]==${rayVersion} could not be installed; see above` };
}

/**
 * Makes a Python environment with Ray in `.cache`, once: a minute, 400 MB. Tests with Ray clusters
 * skip where it is not there.
 */
export function installRay(): void {
  if (process.platform !== "linux" || existsSync(python) || !hasPython()) return;
  const draft = `${folder}.${process.pid}`;
  console.log(`installing Ray ${rayVersion} for the tests of backend ray`);
  try {
    mkdirSync(join(folder, ".."), { recursive: true });
    execFileSync("python3", ["-m", "venv", draft], { stdio: "inherit" });
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    execFileSync(join(draft, "bin/python"), [...pip, `ray[default]==${rayVersion}`], {
      stdio: "inherit",
    });
    // Several processes may make it at once: each renames one that is whole. Its programs know the
    // old place, but `python -m` does not ask them.
    renameSync(draft, folder);
  } catch (error) {
    console.error(`Ray could not be installed: ${(error as Error).message}`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

export default installBeside(import.meta.filename);

if (import.meta.main) installRay();
