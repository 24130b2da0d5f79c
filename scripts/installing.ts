import { spawn } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";
import { basename } from "node:path";

/** What only tests need, by its script, which installs it where it is not there. */
type Script =
  | "kubernetes-openapi"
  | "openai-python"
  | "packed-package"
  | "ray"
  | "slurm"
  | "versitygw";

/** Names the process that installs it, for the workers of the tests. */
const variableOf = (script: string) =>
  `TEST_SLUICE_INSTALLS_${script.toUpperCase().replaceAll("-", "_")}`;

/** A nice value: the tests that run meanwhile come first. */
const behindTests = 5;

/**
 * A set-up for vitest that starts an installation and does not wait for it: tests that need it do,
 * by `installed`. The run ends when it has ended.
 *
 * @param file the script, which installs when it is called as a program.
 */
export function installBeside(file: string): () => (() => Promise<void>) | undefined {
  return () => {
    const variable = variableOf(basename(file, ".ts"));
    // Several projects may ask for it.
    if (process.env[variable] !== undefined) return;
    const child = spawn(process.execPath, [file], { stdio: ["ignore", "inherit", "inherit"] });
    const ended = once(child, "exit");
    process.env[variable] = String(child.pid);
    setPriority(child.pid!, behindTests);
    return async () => void (await ended);
  };
}

/** Waits until something has been installed, if a set-up has started that. */
export async function installed(script: Script): Promise<void> {
  const pid = process.env[variableOf(script)];
  while (pid !== undefined && isThere(Number(pid))) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
