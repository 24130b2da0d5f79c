import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

/** The release of OpenAI's client for Python that the tests use. */
const version = "3.52.0";
const folder = join(import.meta.dirname, `../.cache/openai-python-${version}`);
const python = join(folder, "bin/python");

/**
 * A Python with OpenAI's client, which is installed into `.cache` by the first call: half a minute,
 * 60 MB.
 *
 * @returns the Python, or why it is not there.
 */
export function openaiPython(): { python: string } | { missing: string } {
  if (existsSync(python)) return { python };
  const draft = `${folder}.${process.pid}`;
  try {
    mkdirSync(join(folder, ".."), { recursive: true });
    execFileSync("python3", ["-m", "venv", draft], { stdio: "pipe" });
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    execFileSync(join(draft, "bin/python"), [...pip, `openai==${version}`], { stdio: "pipe" });
    // Several processes may make it at once: each renames one that is whole.
    if (!existsSync(folder)) renameSync(draft, folder);
    return { python };
  } catch (error) {
    return { missing: `openai==${version} could not be installed: ${(error as Error).message}` };
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}
