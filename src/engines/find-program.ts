import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { SluiceError } from "../foundation/errors.ts";
import { runCommand } from "../foundation/subprocess.ts";

/**
 * The absolute path of a program: its own, or that of its name in the environment's `PATH`.
 *
 * @param hint how to get it.
 * @throws SluiceError `PROGRAM_MISSING`.
 */
export async function findProgram(
  program: string,
  environment: Readonly<Record<string, string | undefined>>,
  hint: string,
): Promise<string> {
  const places = isAbsolute(program)
    ? [program]
    : (environment.PATH ?? "")
        .split(delimiter)
        .filter(isAbsolute)
        .map((folder) => join(folder, program));
  for (const place of places) if (await isProgram(place)) return place;
  const detail = isAbsolute(program)
    ? `${program} is not a file that can be run`
    : `${program} is not on PATH`;
  throw new SluiceError("PROGRAM_MISSING", detail, { field: "model.command", hint });
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** Longest wait for a sign of life. */
const lookTimeoutMs = 10_000;

/**
 * The first of several programs that works: the one that is there and whose `info` ends well.
 *
 * @returns otherwise what each of them said.
 * @example
 * await firstWorking(["podman", "docker"], environment); // { program: "docker" }
 */
export async function firstWorking(
  programs: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<{ program: string } | { said: string }> {
  const said: string[] = [];
  for (const program of programs) {
    const options = { env: environment, timeoutMs: lookTimeoutMs };
    const end = await runCommand(program, ["info"], options).catch((error: Error) => error);
    if (!(end instanceof Error) && end.code === 0) return { program };
    const isAbsent = end instanceof Error && "code" in end && end.code === "ENOENT";
    const text = end instanceof Error ? end.message : end.stderr.trim() || `code ${end.code}`;
    said.push(`${program}: ${isAbsent ? "not on PATH" : text.split("\n").at(-1)}`);
  }
  return { said: said.join("; ") };
}
