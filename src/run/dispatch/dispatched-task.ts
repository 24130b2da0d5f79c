import type { ErrorCode } from "../../foundation/error-table.ts";
import { parseIndexSet } from "../../foundation/index-set.ts";
import { noUsage, type Usage } from "../../foundation/inference.ts";
import type { ErrorCounts } from "../attempt/commit.ts";
import type { EarlierEnds } from "../attempt/suspects.ts";
import { boundedIndexSet } from "../execute/row-reach.ts";
import type { RunEvent } from "../status/events.ts";

type RowErrorEvent = Extract<RunEvent, { type: "row-error" }>;

/** What a coordinator knows of a task that is not committed. */
export interface TaskState {
  task: number;
  /** Failures of its own, and deaths of its worker, since it last got on. */
  failures: number;
  deaths: number;
  /** Rows done when it last failed. */
  doneAtFailure: number;
  /** What the next attempt has to know of those before it. */
  ends: EarlierEnds;
  /** What a later try finds on file is this call's own work. */
  hasBegun: boolean;
  /** Generated tokens that earlier calls had left on file. */
  resumedTokens: number;
  /** Failed rows that listeners heard of, by code, whichever attempt they failed in. */
  told: ErrorCounts;
}

/** A task that a worker has, as the worker told last. */
export interface RunningTask {
  state: TaskState;
  /** Undefined before it began. */
  attempt: string | undefined;
  /** Index sets of rows that may be with its engine; none before any was asked. */
  asking: string[];
  waiting: number;
  inFlight: number;
  done: number;
  failed: number;
  usage: Usage;
}

/** A task that nobody has begun. */
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

/** A task that was just given to a worker, with so many rows to ask. */
export function newRunning(state: TaskState, waiting: number): RunningTask {
  const told = { inFlight: 0, done: 0, failed: 0, usage: noUsage };
  return { state, attempt: undefined, asking: [], waiting, ...told };
}

/** True when more rows have an outcome than when the task last failed. */
export function gotOn({ done, state }: RunningTask): boolean {
  return done > state.doneAtFailure;
}

/** Failed rows that nobody was told of. Those of a lost attempt are asked again, and told once. */
export function* newErrors({ told }: TaskState, errors: ErrorCounts): Generator<RowErrorEvent> {
  for (const [code, entry] of Object.entries(errors) as [ErrorCode, ErrorCounts[ErrorCode]][]) {
    const count = entry!.count - (told[code]?.count ?? 0);
    if (count <= 0) continue;
    told[code] = entry!;
    yield { type: "row-error", code, message: entry!.message, count };
  }
}

/** Notes that the task's worker, which held `capacity` requests at once, died by itself or hung. */
export function noteDeath(
  { state, attempt, asking }: RunningTask,
  capacity: number,
  hasStalled = false,
): void {
  if (attempt === undefined || asking.length === 0) return;
  const sets = asking.filter((set) => set !== "");
  const rows = sets.length === 0 ? "" : boundedIndexSet(parseIndexSet(sets.join(",")));
  const together = Math.max(1, Math.floor(capacity / 2));
  const suspects = { attempt, rows, together, ...(hasStalled && { stalled: true }) };
  state.ends = { ...state.ends, suspects };
}

/** Notes that the task's worker was ended by its coordinator: no row is to blame. */
export function noteSpared({ state, attempt }: RunningTask): void {
  if (attempt !== undefined) state.ends = { ...state.ends, spared: attempt };
}

/** Notes that an attempt began: what it was told is on file now. */
export function noteStart(running: RunningTask, attempt: string): void {
  running.attempt = attempt;
  const { spared: _, ...ends } = running.state.ends;
  running.state.ends = ends;
}
