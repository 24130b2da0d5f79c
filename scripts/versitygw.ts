import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { installBeside } from "./installing.ts";

const version = "v1.8.0";
const cache = join(import.meta.dirname, "../.cache");
const folder = join(cache, `versitygw-${version}`);
const program = join(folder, "versitygw");

/** A program, or why it is not there. */
type Found = { program: string; missing?: undefined } | { program?: undefined; missing: string };

/** The S3 server of the tests, if it was built. */
export function findVersitygw(): Found {
  if (existsSync(program)) return { program };
  if (spawnSync("go", ["version"]).status !== 0) {
    return {
      missing: "versitygw, the S3 server of the tests, is built with Go, which is not here",
    };
  }
  return { missing: "versitygw, the S3 server of the tests, could not be built; see above" };
}

/**
 * Builds the S3 server of the tests, versitygw, from its source into `.cache`: a minute or two,
 * once; needs Go. Tests of object stores skip where it is not there.
 */
function installVersitygw(): void {
  if (existsSync(program) || spawnSync("go", ["version"]).status !== 0) return;
  const draft = `${folder}.${process.pid}`;
  mkdirSync(draft, { recursive: true });
  console.log(`building versitygw ${version} for the tests of object stores`);
  try {
    execFileSync("go", ["install", `github.com/versity/versitygw/cmd/versitygw@${version}`], {
      stdio: "inherit",
      env: { ...process.env, GOBIN: draft, GOFLAGS: "", CGO_ENABLED: "0" },
    });
    mkdirSync(folder, { recursive: true });
    // Several processes may build it at once: each renames one that is whole.
    renameSync(join(draft, "versitygw"), program);
  } catch (error) {
    console.error(`versitygw could not be built: ${(error as Error).message}`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

export default installBeside(import.meta.filename);

if (import.meta.main) installVersitygw();
