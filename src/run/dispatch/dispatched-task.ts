import type { ErrorCode } from "../../foundation/error-table.ts";
import { boundedIndexSet, parseIndexSet } from "../../foundation/index-set.ts";
import { noUsage, type Usage } from "../../foundation/inference.ts";
import type { ErrorCounts } from "../attempt/commit.ts";
import type { EarlierEnds } from "../attempt/suspects.ts";
import type { RunEvent } from "../status/events.ts";

type RowErrorEvent = Extract<RunEvent, { type: "row-error" }>;

/** What a coordinator knows of an uncommitted task. */
export interface TaskState {
  task: number;
  /** Failures of the task and deaths of its worker since its last progress. */
  failures: number;
  deaths: number;
  /** Finished rows at its last failure. */
  doneAtFailure: number;
  /** What the next attempt must know of earlier ones. */
  ends: EarlierEnds;
  /** Answers that a later try finds on file are this call's own work. */
  hasBegun: boolean;
  /** Generated tokens that earlier calls had on file. */
  resumedTokens: number;
  /** Failed rows that listeners know, by code, over all attempts. */
  told: ErrorCounts;
}

/** The task of a worker, as it last reported it. */
export interface RunningTask {
  state: TaskState;
  /** Undefined before its start. */
  attempt: string | undefined;
  /** Index sets of rows that may be with its engine; none before the first request. */
  announced: string[];
  waiting: number;
  inFlight: number;
  done: number;
  failed: number;
  usage: Usage;
}

/** A task that no worker has begun. */
export function newTask(task: number): TaskState {
  return {
    task,
    failures: 0,
    deaths: 0,
    doneAtFailure: 0,
    ends: {},
    hasBegun: false,
    resumedTokens: 0,
    told: {},
  };
}

/** A task that a worker just got, with so many rows. */
export function newRunning(state: TaskState, waiting: number): RunningTask {
  const told = { inFlight: 0, done: 0, failed: 0, usage: noUsage };
  return { state, attempt: undefined, announced: [], waiting, ...told };
}

/** True if more rows have an outcome than at its last failure. */
export function hasProgressed({ done, state }: RunningTask): boolean {
  return done > state.doneAtFailure;
}

/**
 * Failed rows that are not reported yet. Rows of a lost attempt are sent again, but reported once.
 */
export function* newErrors({ told }: TaskState, errors: ErrorCounts): Generator<RowErrorEvent> {
  for (const [code, entry] of Object.entries(errors) as [ErrorCode, ErrorCounts[ErrorCode]][]) {
    const count = entry!.count - (told[code]?.count ?? 0);
    if (count <= 0) continue;
    told[code] = entry!;
    yield { type: "row-error", code, message: entry!.message, hint: entry!.hint, count };
  }
}

/** Records that the task's worker, with `capacity` requests in flight, died or hung. */
export function noteDeath(
  { state, attempt, announced }: RunningTask,
  capacity: number,
  hasStalled = false,
): void {
  if (attempt === undefined || announced.length === 0) return;
  const sets = announced.filter((set) => set !== "");
  const rows = sets.length === 0 ? "" : boundedIndexSet(parseIndexSet(sets.join(",")));
  const together = Math.max(1, Math.floor(capacity / 2));
  const suspects = { attempt, rows, together, ...(hasStalled && { stalled: true }) };
  state.ends = { ...state.ends, suspects };
}

/** Records that the coordinator ended the task's worker: no row is suspect. */
export function noteSpared({ state, attempt }: RunningTask): void {
  if (attempt !== undefined) state.ends = { ...state.ends, spared: attempt };
}

/** Records that an attempt began: the facts given to it are on file now. */
export function noteStart(running: RunningTask, attempt: string): void {
  running.attempt = attempt;
  const { spared: _, ...ends } = running.state.ends;
  running.state.ends = ends;
}
