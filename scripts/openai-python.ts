import { execFileSync } from "node:child_process";
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
    execFileSync("python3", ["-m", "venv", draft], { stdio: "inherit" });
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    execFileSync(join(draft, "bin/python"), [...pip, `openai==${version}`], { stdio: "inherit" });
    // Several processes may make it at once: each renames one that is whole.
    if (!existsSync(folder)) renameSync(draft, folder);
  } catch (error) {
    console.error(`OpenAI's client could not be installed: ${(error as Error).message}`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

export default installBeside(import.meta.filename);

if (import.meta.main) installOpenaiPython();
