import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { fileChunks, recordedLines } from "../directory/lines.ts";
import type { Manifest, ManifestTask } from "./manifest.ts";

/**
 * The file with the lines of a sealed task: under the name that only its writer uses or, after a
 * cleaning, its part. Undefined if the lines are only in the merged file.
 */
export async function linesFile(
  storage: Storage,
  { source, part }: ManifestTask,
): Promise<FileRecord | undefined> {
  const isThere = source && (!part || (await storage.stat(source.path)));
  return isThere ? source : (part ?? undefined);
}

/** The same for the dead letters of a sealed task; null if it has none. */
export async function lettersFile(
  storage: Storage,
  { letters, deadLetters }: ManifestTask,
): Promise<FileRecord | null> {
  const isThere = deadLetters && letters !== undefined && (await storage.stat(letters));
  return isThere ? { ...deadLetters, path: letters } : deadLetters;
}

/**
 * The dead letters of a sealed task, a line each. If a cleaning removes the file while it is read,
 * the other one has the same lines.
 *
 * @throws SluiceError `RUN_DAMAGED`, at the end, if they are not the sealed ones.
 */
export async function* letterLines(
  storage: Storage,
  { letters, deadLetters }: ManifestTask,
): AsyncGenerator<string> {
  if (!deadLetters) return;
  const published = () => recordedLines(storage, deadLetters);
  if (letters === undefined) yield* published();
  else yield* orElsewhere(recordedLines(storage, { ...deadLetters, path: letters }), published);
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
 *
 * @param linesOf reads a file; `recordedLines` checks that it is the sealed one.
 */
export async function* mergedLines(
  storage: Storage,
  outside: Storage,
  { merged, mergedSource, tasks }: Pick<Manifest, "merged" | "mergedSource" | "tasks">,
  linesOf: LinesOf = recordedLines,
): AsyncGenerator<string> {
  const sources =
    mergedSource === undefined
      ? tasks.map(({ source }) => source)
      : [{ ...merged!, path: mergedSource }];
  const published = () => linesOf(outside, merged!);
  if (sources.length === 0 || !sources.every((file) => file !== undefined)) yield* published();
  else yield* orElsewhere(linesOfAll(storage, sources, linesOf), published);
}

type LinesOf = (storage: Storage, file: FileRecord) => AsyncIterable<string>;

async function* linesOfAll(
  storage: Storage,
  files: readonly FileRecord[],
  linesOf: LinesOf,
): AsyncGenerator<string> {
  for (const file of files) yield* linesOf(storage, file);
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
