import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { indexesIn } from "../../foundation/index-set.ts";
import type { Commit } from "../attempt/commit.ts";
import type { DeadLetter } from "../attempt/result-lines.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { recordedLines } from "../directory/lines.ts";
import { HashedFile, writeWhole } from "../output/hashed-file.ts";
import type { Task } from "../plan/plan.ts";

/** One task of the run before a retry, and the retry's work on it. */
export interface MergeSource {
  /** The task as the first generation planned it. */
  task: Task;
  /** Its present results, in input order. */
  results: AsyncIterator<string>;
  deadLetters: FileRecord | null;
  /** Lines of rows in `results`, for rows with more or fewer than one. */
  lineCounts?: FileRecord | undefined;
  retried: { task: Task; commit: Commit };
  /** Results have lines of failed rows too, beside their dead letters. */
  resultsHoldFailed: boolean;
}

export interface MergedTask {
  results: number;
  failed: number;
  /** Rows that failed before and now have an answer. */
  recovered: number;
  /** Rows that a stage left out. */
  filtered: number;
  deadLetters: FileRecord | null;
  lineCounts: FileRecord | null;
}

/** Where a merge writes its other files. */
export interface MergePaths {
  deadLetters: string;
  lineCounts: string;
}

/**
 * Writes a task again: a row that the retry answered replaces its old lines, and any other row
 * stays unchanged. A row that failed again keeps one dead letter, the newer one.
 *
 * @throws SluiceError `RUN_DAMAGED` if a file is not as it was recorded; `source.results` are read
 *   as far as the task's rows go.
 */
export async function mergeTask(
  storage: Storage,
  source: MergeSource,
  results: Pick<HashedFile, "add">,
  paths: MergePaths,
): Promise<MergedTask> {
  const { task, retried, resultsHoldFailed } = source;
  const { commit } = retried;
  const before = await deadLettersOf(storage, source.deadLetters);
  const again = await deadLettersOf(storage, commit.deadLetters);
  const asked = new Set(indexesIn(retried.task.only!));
  const answers = recordedLines(storage, commit.part);
  const oldCounts = await readLineCounts(storage, source.lineCounts);
  const newCounts = await readLineCounts(storage, commit.lineCounts);
  const counts: [row: number, lines: number][] = [];
  const merged = { results: 0, failed: 0, recovered: 0, filtered: 0 };
  const letters: string[] = [];
  try {
    for (const index of plannedIndexes(task)) {
      const wasAnswered = !before.has(index);
      const isAnswered = asked.has(index) && !again.has(index);
      const hadLine = wasAnswered || resultsHoldFailed;
      const hasLine = isAnswered || (asked.has(index) && resultsHoldFailed);
      const old = await nextLines(source.results, hadLine ? (oldCounts.get(index) ?? 1) : 0);
      const renewed = await nextLines(answers, hasLine ? (newCounts.get(index) ?? 1) : 0);
      const isFailed = !isAnswered && !wasAnswered;
      const standing = isAnswered || (isFailed && hasLine) ? renewed : old;
      for (const line of standing) await results.add(line);
      merged.results += standing.length;
      if (isAnswered && !wasAnswered) merged.recovered++;
      if (isFailed) {
        letters.push(again.get(index) ?? before.get(index)!);
        merged.failed++;
      } else if (standing.length !== 1) {
        counts.push([index, standing.length]);
        if (standing.length === 0) merged.filtered++;
      }
    }
    await endOf(answers);
  } finally {
    await answers.return(undefined);
  }
  const deadLetters =
    letters.length === 0 ? null : await writeLines(storage, paths.deadLetters, letters);
  const lineCounts =
    counts.length === 0
      ? null
      : await writeLines(storage, paths.lineCounts, [JSON.stringify(counts)]);
  return { ...merged, deadLetters, lineCounts };
}

/** Lines of rows, for those with more or fewer than one. */
export async function readLineCounts(
  storage: Storage,
  file: FileRecord | null | undefined,
): Promise<Map<number, number>> {
  if (!file) return new Map();
  try {
    const lines = await Array.fromAsync(recordedLines(storage, file));
    return new Map(JSON.parse(lines.join("")) as [row: number, lines: number][]);
  } catch (error) {
    if (asSluiceError(error).code !== "NOT_FOUND") throw error;
    throw new SluiceError("RUN_DAMAGED", "the numbers of lines are missing", { file: file.path });
  }
}

export async function nextLine(lines: AsyncIterator<string>): Promise<string> {
  const { done, value } = await lines.next();
  if (!done) return value;
  throw new SluiceError("RUN_DAMAGED", "there are fewer lines of results than were counted");
}

export async function nextLines(lines: AsyncIterator<string>, count: number): Promise<string[]> {
  const next: string[] = [];
  while (next.length < count) next.push(await nextLine(lines));
  return next;
}

/** Reads on to the end, where the checksum of the lines is compared. */
export async function endOf(lines: AsyncIterator<string>): Promise<void> {
  let hasMore = false;
  while (!(await lines.next()).done) hasMore = true;
  if (!hasMore) return;
  throw new SluiceError("RUN_DAMAGED", "there are more lines of results than were counted");
}

export function* plannedIndexes({ firstRow, rows, only }: Task): Generator<number> {
  if (only !== undefined) yield* indexesIn(only);
  else for (let index = firstRow; index < firstRow + rows; index++) yield index;
}

async function deadLettersOf(
  storage: Storage,
  file: FileRecord | null,
): Promise<Map<number, string>> {
  const letters = new Map<number, string>();
  if (!file) return letters;
  // All of them first: a damaged line may not be JSON.
  for (const line of await Array.fromAsync(recordedLines(storage, file))) {
    letters.set((JSON.parse(line) as DeadLetter).index, line);
  }
  return letters;
}

async function writeLines(storage: Storage, path: string, lines: string[]): Promise<FileRecord> {
  return writeWhole(await HashedFile.open(storage, path), async (file) => {
    for (const line of lines) await file.add(line);
  });
}
