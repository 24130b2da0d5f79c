import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { fileChunks, readLines } from "../directory/lines.ts";
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
  const published = () => readLines(storage, deadLetters.path);
  if (letters === undefined) yield* published();
  else yield* orElsewhere(readLines(storage, letters), published);
}

/**
 * The lines, or the dead letters, of a sealed task as bytes. A cleaning that takes the one file
 * away while it is read leaves the same bytes in the other.
 *
 * @param isPartOfLines false where the part is a table, so that lines stand in their source alone.
 * @param start bytes that were read before.
 */
export async function* taskChunks(
  storage: Storage,
  { source, part, letters, deadLetters }: ManifestTask,
  { failed, isPartOfLines, start }: { failed: boolean; isPartOfLines: boolean; start: number },
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (failed && !deadLetters) return;
  const own = failed ? letters : source?.path;
  const published = failed ? deadLetters?.path : part?.path;
  if (own === undefined) {
    if (published !== undefined) yield* fileChunks(storage, published, signal, start);
    return;
  }
  let read = start;
  try {
    for await (const chunk of fileChunks(storage, own, signal, start)) {
      yield chunk;
      read += chunk.length;
    }
  } catch (error) {
    const isElsewhere = published !== undefined && (failed || isPartOfLines);
    if (!isElsewhere || asSluiceError(error).code !== "NOT_FOUND") throw error;
    yield* fileChunks(storage, published, signal, read);
  }
}

/**
 * The lines of a run whose results are merged into one file, in input order: from files that only
 * their writers name, as long as these are there. Those that a cleaning takes away meanwhile are in
 * the merged file.
 */
export async function* mergedLines(
  storage: Storage,
  outside: Storage,
  { merged, mergedSource, tasks }: Pick<Manifest, "merged" | "mergedSource" | "tasks">,
): AsyncGenerator<string> {
  const sources =
    mergedSource === undefined ? tasks.map(({ source }) => source?.path) : [mergedSource];
  const published = () => readLines(outside, merged!.path);
  if (sources.length === 0 || !sources.every((path) => path !== undefined)) yield* published();
  else yield* orElsewhere(linesOfAll(storage, sources), published);
}

async function* linesOfAll(storage: Storage, paths: readonly string[]): AsyncGenerator<string> {
  for (const path of paths) yield* readLines(storage, path);
}

/** Lines from where they lie or, where they are gone meanwhile, the rest of them from elsewhere. */
async function* orElsewhere(
  here: AsyncIterable<string>,
  elsewhere: () => AsyncIterable<string>,
): AsyncGenerator<string> {
  let read = 0;
  try {
    for await (const line of here) {
      yield line;
      read++;
    }
    return;
  } catch (error) {
    if (asSluiceError(error).code !== "NOT_FOUND") throw error;
  }
  for await (const line of elsewhere()) if (read-- <= 0) yield line;
}
