import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { parseExactly } from "../../foundation/exact-json.ts";
import { indexesIn, indexSetOf } from "../../foundation/index-set.ts";
import type { Commit } from "../attempt/commit.ts";
import { addRequestCounts, noRequests, type RequestCounts } from "../attempt/request-counts.ts";
import type { DeadLetter } from "../attempt/result-lines.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { readLines } from "../directory/lines.ts";
import { readJson } from "../directory/records.ts";
import { type Plan, readPlan, type Task, TaskTable } from "../plan/plan.ts";
import type { ManifestTask } from "../seal/manifest.ts";
import { letterLines } from "../seal/task-files.ts";

/**
 * Rows of a task whose present answer was cut by the token limit: recorded by the first generation,
 * and by each retry for the rows that it answered.
 *
 * @throws SluiceError `UNSUPPORTED` if the records were removed.
 */
export async function cutRows(
  storage: Storage,
  { commit: own, retried = [] }: ManifestTask,
): Promise<number[]> {
  const first = await readJson<Commit>(storage, own.path);
  const cut = new Set(await indexesInFile(storage, first?.cutRows ?? null));
  for (const { commit: file, generation } of retried) {
    const commit = await readJson<Commit>(storage, file.path);
    if (!commit) throw new SluiceError("RUN_DAMAGED", "the commit is missing", { file: file.path });
    const { only } = await replacedRows(storage, await readPlan(storage, generation), commit);
    for (const index of only === "" ? [] : indexesIn(only!)) cut.delete(index);
    for (const index of await indexesInFile(storage, commit.cutRows)) cut.add(index);
  }
  return [...cut].sort((a, b) => a - b);
}

/** The same; null if the records were removed. */
export async function knownCutRows(storage: Storage, task: ManifestTask): Promise<number[] | null> {
  try {
    return await cutRows(storage, task);
  } catch (error) {
    if (asSluiceError(error).code === "UNSUPPORTED") return null;
    throw error;
  }
}

/** The task of a retry's commit, with only the rows of which it replaced the result, if any. */
export async function replacedRows(
  storage: Storage,
  plan: Plan,
  { task: number, deadLetters }: Commit,
): Promise<Task> {
  const table = new TaskTable(storage, plan);
  try {
    const task = await table.task(number);
    // Failed rows had no answer, and their dead letters may have been cleaned away.
    if (plan.where === "failed") return task;
    const answered = new Set(indexesIn(task.only!));
    for (const { index } of await lettersIn(storage, deadLetters?.path)) answered.delete(index);
    return { ...task, only: indexSetOf(answered) };
  } finally {
    await table.close();
  }
}

/** A failed row, and its requests in the run's counts. */
export interface FailedRow extends Pick<DeadLetter, "index"> {
  /** With all its digits. */
  id: string | number | bigint | null;
  requests: RequestCounts;
}

/** Failed rows of a sealed task, in input order. */
export async function failedRowsOf(storage: Storage, task: ManifestTask): Promise<FailedRow[]> {
  const rows: FailedRow[] = [];
  for await (const line of letterLines(storage, task)) rows.push(failedRow(line));
  return rows;
}

export function requestsOfRows(rows: readonly FailedRow[]): RequestCounts {
  return rows.reduce((sum, { requests }) => addRequestCounts(sum, requests), noRequests);
}

async function lettersIn(storage: Storage, path: string | undefined): Promise<FailedRow[]> {
  const rows: FailedRow[] = [];
  if (path === undefined) return rows;
  await assertKept(storage, path);
  for await (const line of readLines(storage, path)) {
    rows.push(failedRow(line));
  }
  return rows;
}

function failedRow(line: string): FailedRow {
  const letter = parseExactly(line) as unknown as FailedRow & Pick<DeadLetter, "requests">;
  const { index, id, requests = { planned: 1, answered: 0 } } = letter;
  return { index, id, requests };
}

async function indexesInFile(storage: Storage, file: FileRecord | null): Promise<Iterable<number>> {
  if (!file) return [];
  await assertKept(storage, file.path);
  return indexesIn(Buffer.from(await storage.read(file.path)).toString());
}

async function assertKept(storage: Storage, path: string): Promise<void> {
  if (await storage.stat(path)) return;
  throw new SluiceError("UNSUPPORTED", "what says which answers were cut is gone", { file: path });
}
