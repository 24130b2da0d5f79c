import type { Storage } from "../../data/storage/storage.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { addPaidAnswers, noPaidAnswers, type PaidAnswers } from "../bill/costs.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { commitPath, type RunGeneration } from "../directory/layout.ts";
import { createOnce, recordBytes } from "../directory/records.ts";
import { addRequestCounts, noRequests, type RequestCounts } from "./request-counts.ts";

/** Counts of rows by outcome. Each planned row is in exactly one of answered, filtered, failed. */
export interface RowCounts {
  total: number;
  answered: number;
  filtered: number;
  failed: number;
  /** Lines of the part: an answered row may have several. */
  results: number;
}

/** Failures by code, with the first message of each. */
export type ErrorCounts = Partial<Record<ErrorCode, ErrorCount>>;

/** The words are those of the first row; a hint is there if it says more than that of the code. */
export interface ErrorCount {
  count: number;
  message: string;
  hint?: string | undefined;
}

/** Rows by whether their prompts were in `preparedDir`. */
export interface PreparedCounts {
  hits: number;
  misses: number;
}

export interface AttemptCounts {
  rows: RowCounts;
  requests: RequestCounts;
  usage: Usage;
  /** Rows with prompts kept from another run, and rows that had to be rendered. */
  prepared?: PreparedCounts;
  /** Rows with an answer that reached its token limit; commits of earlier versions lack it. */
  cut?: number;
  /** The part of `usage` for wrong answers, which are in no row; absent = none. */
  invalid?: PaidAnswers;
  errors: ErrorCounts;
}

/** What progress shows of a committed task. */
export function doneIn({ rows, cut, usage, errors }: AttemptCounts) {
  const done = rows.answered + rows.filtered + rows.failed;
  return { done, failed: rows.failed, usage, errors, ...(cut && { cut }) };
}

/** The one record that makes an attempt's output the task's output. */
export interface Commit extends AttemptCounts {
  task: number;
  run: string;
  generation: number;
  attempt: string;
  /** Attempts with a journal when this one began; commits of version 0.1.0 lack it. */
  earlierAttempts?: number;
  worker: string;
  part: FileRecord;
  /** The part in the published format; absent if the part already has it. */
  published?: FileRecord;
  /** Columns of the part, if results are written as tables. */
  columns?: FileRecord;
  /** Rows with more or fewer lines than one, as `[row, lines]` pairs. */
  lineCounts?: FileRecord;
  deadLetters: FileRecord | null;
  /** Sorted (id hash, row) pairs, if the job names an id field. */
  ids: FileRecord | null;
  /** A hash of each row of the task, in input order; only if a row failed. */
  rowHashes?: FileRecord;
  /** In a retry: requests of its rows that no longer count; commits of earlier versions lack it. */
  replaces?: RequestCounts;
  /** Index set of rows with an answer that reached its token limit; null = none. */
  cutRows: FileRecord | null;
  /** ISO 8601. */
  startedAt: string;
  committedAt: string;
  busySeconds: number;
}

export const noCounts: AttemptCounts = Object.freeze({
  rows: { total: 0, answered: 0, filtered: 0, failed: 0, results: 0 },
  requests: noRequests,
  usage: noUsage,
  errors: {},
});

export function addCounts(a: AttemptCounts, b: AttemptCounts): AttemptCounts {
  const rows = { ...a.rows };
  for (const key of Object.keys(rows) as (keyof RowCounts)[]) rows[key] += b.rows[key];
  return {
    rows,
    requests: addRequestCounts(a.requests, b.requests),
    usage: addUsage(a.usage, b.usage),
    ...addInvalid(a, b),
    ...addPrepared(a, b),
    ...((a.cut ?? b.cut) !== undefined && { cut: (a.cut ?? 0) + (b.cut ?? 0) }),
    errors: addErrors(a.errors, b.errors),
  };
}

type PreparedCount = Pick<AttemptCounts, "prepared">;

function addPrepared(
  { prepared: a }: PreparedCount,
  { prepared: b }: PreparedCount,
): PreparedCount {
  if (!a || !b) return a || b ? { prepared: { ...(a ?? b!) } } : {};
  return { prepared: { hits: a.hits + b.hits, misses: a.misses + b.misses } };
}

/** Counts rows in `counts`. */
export function countPrepared(counts: AttemptCounts, prepared: PreparedCounts): void {
  Object.assign(counts, addPrepared(counts, { prepared }));
}

type InvalidCount = Pick<AttemptCounts, "invalid">;

function addInvalid({ invalid: a }: InvalidCount, { invalid: b }: InvalidCount): InvalidCount {
  if (!a && !b) return {};
  return { invalid: addPaidAnswers(a ?? noPaidAnswers, b ?? noPaidAnswers) };
}

/** Counts a wrong answer in `counts`; its tokens belong to its usage as well. */
export function countInvalid(counts: AttemptCounts, usage: Usage): void {
  Object.assign(counts, addInvalid(counts, { invalid: { answers: 1, ...usage } }));
}

/** The sum of two failure tables; each code keeps its first message. */
export function addErrors(a: ErrorCounts, b: ErrorCounts): ErrorCounts {
  const sum = { ...a };
  for (const [code, entry] of Object.entries(b) as [ErrorCode, ErrorCount][]) {
    const known = sum[code];
    sum[code] = known ? { ...known, count: known.count + entry.count } : entry;
  }
  return sum;
}

/**
 * Creates the commit of a task, unless another attempt has committed it.
 *
 * @returns the commit that stands, and whether it is this attempt's.
 */
export function createCommit(
  storage: Storage,
  of: RunGeneration,
  commit: Commit,
): Promise<{ won: boolean; record: Commit }> {
  return createOnce(storage, commitPath(commit.task, of), shortened(commit), (it) => it.attempt);
}

// Only the messages of a commit depend in size on the input.
function shortened(commit: Commit): Commit {
  if (recordBytes(commit).length <= limits.maxCommitBytes) return commit;
  const errors: ErrorCounts = {};
  for (const [code, entry] of Object.entries(commit.errors) as [ErrorCode, { count: number }][]) {
    errors[code] = { count: entry.count, message: "" };
  }
  return { ...commit, errors };
}
