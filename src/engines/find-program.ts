import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { SluiceError } from "../foundation/errors.ts";

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
