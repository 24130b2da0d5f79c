import type { StageState } from "../../engines/engine.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { EarlierEnds } from "../attempt/suspects.ts";
import type { TaskCounts, TaskOutcome } from "../status/events.ts";

/**
 * Version of the messages between a coordinator and its workers. It rises with each release in
 * which one of them changed its form or meaning, not with each change between two releases.
 */
export const protocolVersion = 1;

/** What a worker is told. */
export type ToWorker =
  /** The first message to a worker that was started without a run; never comes later. */
  | {
      type: "run-open";
      /** The run directory. */
      location: string;
      generation: number;
    }
  | ({
      type: "task-run";
      task: number;
    } & EarlierEnds)
  | { type: "task-cancel"; task: number }
  | { type: "worker-stop"; graceMs: number };

/** What a worker tells. */
export type FromWorker =
  | {
      type: "worker-ready";
      worker: string;
      pid: number;
      protocol: number;
      /** Requests its engine can usefully hold. */
      capacity: number;
      engine: string;
      /** What the engine chose for itself. */
      choices: Record<string, Json>;
    }
  /** It cannot start; it leaves after this. */
  | { type: "worker-failed"; error: ErrorRecord }
  | {
      type: "task-start";
      task: number;
      attempt: string;
      rows: number;
      /** Rows that earlier attempts had answered, and what these cost. */
      resumed: number;
      resumedUsage: Usage;
    }
  /** Rows, as an index set, that may be asked from now on: these alone, or these as well. */
  | { type: "task-asking"; task: number; rows: string; isAll: boolean }
  | ({
      type: "task-progress";
      task: number;
      /** Rows that nothing was asked for yet. */
      waiting: number;
      inFlight: number;
      usage: Usage;
      /** Requests its engine can hold from now on, where that has changed. */
      capacity?: number;
      /** Rows that settle while tasks are opened and should wait, where that has changed. */
      rowsAhead?: number;
      /** Where the rows of all its tasks are, of an engine with several stages. */
      stages?: readonly StageState[];
    } & TaskCounts)
  /** It has no task to report on, and lives. */
  | { type: "worker-beat" }
  | ({
      type: "task-end";
      task: number;
      outcome: TaskOutcome;
      usage: Usage;
      error?: ErrorRecord;
      /** What its engine chose, where that has changed since it was told last. */
      choices?: Record<string, Json>;
      stages?: readonly StageState[];
    } & TaskCounts);
