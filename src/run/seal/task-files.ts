import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { fileChunks, readLines } from "../directory/lines.ts";
import type { Manifest, ManifestTask } from "./manifest.ts";

/**
 * The file with the lines of a sealed task: under the name that only its writer uses or, after a
 * cleaning, its part. Undefined if the lines are only in the merged file.
 */
export async function linesPath(
  storage: Storage,
  { source, part }: ManifestTask,
): Promise<string | undefined> {
  const isThere = source && (!part || (await storage.stat(source.path)));
  return isThere ? source.path : part?.path;
}

/** The same for the dead letters of a sealed task; undefined if it has none. */
export async function lettersPath(
  storage: Storage,
  { letters, deadLetters }: ManifestTask,
): Promise<string | undefined> {
  if (!deadLetters) return undefined;
  const isThere = letters !== undefined && (await storage.stat(letters));
  return isThere ? letters : deadLetters.path;
}

/**
 * The dead letters of a sealed task, a line each. If a cleaning removes the file while it is read,
 * the other one has the same lines.
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
 * The lines, or the dead letters, of a sealed task as bytes. If a cleaning removes the file while
 * it is read, the other one has the same bytes.
 *
 * @param isPartOfLines false if the part is a table, so that only its source has the lines.
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
 * The lines of a run whose results are merged into one file, in input order: from files with names
 * that only their writers use, as long as they exist. Lines that a cleaning removes meanwhile are
 * in the merged file.
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

/** Lines from their file or, if it is removed meanwhile, the rest of them from another. */
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
