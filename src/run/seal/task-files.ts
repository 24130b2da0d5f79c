import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { readLines } from "../lines.ts";
import type { ManifestTask } from "./manifest.ts";

/**
 * Where the lines of a sealed task lie: under the name that only their writer uses or, once they
 * were cleaned away, as its part. Undefined where they are in the merged file alone.
 */
export async function linesPath(
  storage: Storage,
  { source, part }: ManifestTask,
): Promise<string | undefined> {
  const isThere = source && (!part || (await storage.stat(source.path)));
  return isThere ? source.path : part?.path;
}

/** Where the dead letters of a sealed task lie, likewise; undefined where it has none. */
export async function lettersPath(
  storage: Storage,
  { letters, deadLetters }: ManifestTask,
): Promise<string | undefined> {
  if (!deadLetters) return undefined;
  const isThere = letters !== undefined && (await storage.stat(letters));
  return isThere ? letters : deadLetters.path;
}

/**
 * The dead letters of a sealed task, a line each. A cleaning that takes the one file away while it
 * is read leaves the same lines in the other.
 */
export async function* letterLines(
  storage: Storage,
  { letters, deadLetters }: ManifestTask,
): AsyncGenerator<string> {
  if (!deadLetters) return;
  let read = 0;
  if (letters !== undefined) {
    try {
      for await (const line of readLines(storage, letters)) {
        yield line;
        read++;
      }
      return;
    } catch (error) {
      if (asSluiceError(error).code !== "NOT_FOUND") throw error;
    }
  }
  for await (const line of readLines(storage, deadLetters.path)) if (read-- <= 0) yield line;
}
