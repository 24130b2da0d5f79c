import type { BatchState } from "../../engines/batch-records.ts";
import type { StageState } from "../../engines/engine.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { ErrorCounts } from "../attempt/commit.ts";
import type { EarlierEnds } from "../attempt/suspects.ts";

/**
 * Version of the messages between a coordinator and its workers. It rises with each release that
 * changes the form or meaning of one, not with each change between releases.
 */
export const protocolVersion = 1;

export type ToWorker =
  /** The first message to a worker without a run; never sent later. */
  | {
      type: "run-open";
      location: string;
      generation: number;
    }
  | ({
      type: "task-run";
      task: number;
    } & EarlierEnds)
  // For coordinators of others; ours sends none.
  | { type: "task-cancel"; task: number }
  | { type: "worker-stop"; graceMs: number };

/** The progress of the attempts at one task. */
export interface TaskCounts {
  /** Rows with an outcome, including resumed ones. */
  done: number;
  failed: number;
  /** Rows with an answer that reached its token limit; absent = none. */
  cut?: number;
  /** Failed rows by code, with a first message. */
  errors: ErrorCounts;
}

export type TaskOutcome = "committed" | "already-committed" | "failed" | "canceled";

/** Messages from a worker. */
export type FromWorker =
  | {
      type: "worker-ready";
      worker: string;
      pid: number;
      protocol: number;
      /** Requests its engine can usefully hold. */
      capacity: number;
      engine: string;
      choices: Record<string, Json>;
    }
  /** It cannot start; it exits after this. */
  | { type: "worker-failed"; error: ErrorRecord }
  | {
      type: "task-start";
      task: number;
      attempt: string;
      rows: number;
      /** Rows that earlier attempts had answered, and their cost. */
      resumed: number;
      resumedUsage: Usage;
    }
  /** Rows, as an index set, that may be sent from now on: only these, or these too. */
  | { type: "task-asking"; task: number; rows: string; isAll: boolean }
  | ({
      type: "task-progress";
      task: number;
      /** Rows with a request that was not sent yet. */
      waiting: number;
      inFlight: number;
      usage: Usage;
      /** Requests that its engine can hold from now on, if changed. */
      capacity?: number;
      /** Rows that should wait, since they settle while tasks are opened; if changed. */
      rowsAhead?: number;
      /** The rows at each stage, for an engine with several stages. */
      stages?: readonly StageState[];
      /** The batches of the task, for an engine that sends requests in such. */
      batches?: readonly BatchState[];
    } & TaskCounts)
  /** It is alive and has no task to report on, or is not ready yet. */
  | {
      type: "worker-beat";
      /** What it does before it is ready, for people: such as a download. */
      doing?: string;
    }
  /** It was asked to leave; another one is to take its place. */
  | { type: "worker-leave"; graceMs: number }
  | ({
      type: "task-end";
      task: number;
      outcome: TaskOutcome;
      usage: Usage;
      error?: ErrorRecord;
      /** Settings that its engine chose, if changed since the last report. */
      choices?: Record<string, Json>;
      stages?: readonly StageState[];
    } & TaskCounts);
