import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { installBeside } from "./installing.ts";

/** The release of OpenAI's client for Python that the tests use. */
const version = "3.52.0";
const folder = join(import.meta.dirname, `../.cache/openai-python-${version}`);
const python = join(folder, "bin/python");

/** A Python with OpenAI's client, if it was installed. */
export function findOpenaiPython(): { python: string } | { missing: string } {
  if (existsSync(python)) return { python };
  return { missing: `openai==${version} could not be installed; see above` };
}

/** Installs OpenAI's client into a Python of its own in `.cache`, once: half a minute, 60 MB. */
function installOpenaiPython(): void {
  if (existsSync(python)) return;
  const draft = `${folder}.${process.pid}`;
  try {
    mkdirSync(join(folder, ".."), { recursive: true });
    execFileSync("python3", ["-m", "venv", "--without-pip", draft], { stdio: "inherit" });
    installClient(join(draft, "bin/python"));
    // Several processes may make it at once: each renames one that is whole.
    if (!existsSync(folder)) renameSync(draft, folder);
  } catch (error) {
    console.error(`OpenAI's client could not be installed: ${(error as Error).message}`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/** By the pip of `python3` where that can do it: to make another one takes as long again. */
function installClient(target: string): void {
  const words = ["install", "--quiet", "--disable-pip-version-check", `openai==${version}`];
  const pip = ["-m", "pip", "--python", target, ...words];
  if (spawnSync("python3", pip, { stdio: "ignore" }).status === 0) return;
  execFileSync(target, ["-m", "ensurepip"], { stdio: "ignore" });
  execFileSync(target, ["-m", "pip", ...words], { stdio: "inherit" });
}

export default installBeside(import.meta.filename);

if (import.meta.main) installOpenaiPython();
