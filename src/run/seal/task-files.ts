import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { readLines } from "../lines.ts";
import type { Manifest, ManifestTask } from "./manifest.ts";

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

/**
 * The lines of a run whose results are merged into one file, in input order: from files that only
 * their writers name, as long as these are there.
 */
export async function* mergedLines(
  storage: Storage,
  outside: Storage,
  { merged, mergedSource, tasks }: Pick<Manifest, "merged" | "mergedSource" | "tasks">,
): AsyncGenerator<string> {
  if (mergedSource !== undefined && (await storage.stat(mergedSource))) {
    return yield* readLines(storage, mergedSource);
  }
  const sources = mergedSource === undefined ? tasks.map(({ source }) => source?.path) : [];
  const present = await Promise.all(sources.map((path) => path && storage.stat(path)));
  if (sources.length === 0 || !present.every(Boolean)) {
    return yield* readLines(outside, merged!.path);
  }
  for (const path of sources) yield* readLines(storage, path!);
}
