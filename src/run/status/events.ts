import type { StageState } from "../../engines/engine.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { ErrorCounts } from "../attempt/commit.ts";
import type { Budget, Spending } from "../bill/costs.ts";

/** What the attempts of one task have done so far. */
export interface TaskCounts {
  /** Rows with an outcome, resumed ones included. */
  done: number;
  failed: number;
  /** Rows with an answer that ended at its limit of tokens; absent = none. */
  cut?: number;
  /** Failed rows by code, with a first message. */
  errors: ErrorCounts;
}

/** How far one process is with what it leads, and how fast. */
export interface RunProgress {
  /** Rows with an outcome, those of earlier calls included, and how many there are in all. */
  done: number;
  rows: number;
  /** Of this call, as are the tokens. */
  failed: number;
  /** Rows with an answer that ended at its limit of tokens. */
  cut: number;
  /** Rows that an engine has now. */
  inFlight: number;
  usage: Usage;
  /** Of the last half minute. */
  rowsPerSecond: number;
  promptTokensPerSecond: number;
  completionTokensPerSecond: number;
  /** Until all rows are done, at that rate; null where it is not known. */
  etaSeconds: number | null;
}

/** What happens in a run, as it happens: for progress on a terminal, and `--json`. */
export type RunEvent =
  | { type: "plan-progress"; rows: number; bytes: number; totalBytes: number }
  | {
      type: "run-start";
      runId: string;
      output: string;
      tasks: number;
      rows: number;
      /** Tasks and rows that earlier calls committed. */
      resumedTasks: number;
      resumedRows: number;
      /** 1, or the number of a retry. */
      generation: number;
    }
  | {
      type: "worker-start";
      worker: string;
      pid: number;
      capacity: number;
      engine: string;
      choices: Record<string, Json>;
    }
  | { type: "worker-end"; worker: string; error?: ErrorRecord }
  | {
      type: "task-start";
      task: number;
      worker: string;
      rows: number;
      /** Rows that earlier attempts had answered, and what these cost. */
      resumed: number;
      resumedUsage: Usage;
    }
  | ({
      type: "task-progress";
      task: number;
      worker: string;
      inFlight: number;
      usage: Usage;
      /** What waits at each stage of this worker's pipeline, and what it did so far. */
      stages?: readonly StageState[];
    } & TaskCounts)
  | ({
      type: "task-end";
      task: number;
      worker: string;
      outcome: TaskOutcome;
      usage: Usage;
      error?: ErrorRecord;
      /** What the worker's engine chose, where that has changed since it was told last. */
      choices?: Record<string, Json>;
      stages?: readonly StageState[];
    } & TaskCounts)
  /** Every 5 s while rows are asked; it is kept in the run directory, as all but other progress. */
  | ({ type: "run-progress" } & RunProgress)
  | { type: "row-error"; code: ErrorCode; message: string; count: number }
  /** What a run with a budget has spent of it in all its calls. */
  | { type: "budget-progress"; spent: Spending; budget: Budget }
  | { type: "notice"; message: string }
  /** The run ended without a seal. */
  | { type: "run-stop"; error: ErrorRecord }
  | { type: "run-seal"; manifest: string; rows: number; failed: number };

export type TaskOutcome = "committed" | "already-committed" | "failed" | "canceled";

/** The last line of stdout: one JSON object, whatever else was shown. */
export interface RunSummary {
  status: "SUCCESS" | "FAILED" | "CANCELED";
  run_id: string;
  /** Planned: rows × prompts × elements. */
  request_count: number;
  /** Answered. */
  response_count: number;
  /**
   * Answered rows by how their answers ended: `length` counts those with an answer that was cut at
   * the limit of tokens. Absent for runs of earlier versions, which do not say.
   */
  finish_reasons?: { stop: number; length: number };
  /** Answered requests that had been answered before: nothing was paid for them. */
  reused_count?: number;
  /** Rows whose prompts lay in `preparedDir`, and rows that were rendered. */
  prepared?: { hits: number; misses: number };
  /** How long this call took. */
  run_time_sec: number;
  prompt_tokens: number;
  total_tokens_generated: number;
  tokens_per_sec: number;
  /** What all calls cost, where the job names prices. */
  usd?: number;
  seed: number;
  rows: {
    total: number;
    answered: number;
    failed: number;
    resumed: number;
    /** Rows that a pipeline left out, and rows that came out of it. */
    filtered?: number;
    results?: number;
  };
  /** Failed rows by error code. */
  errors: Record<string, number>;
  /** The first message of each of these codes. */
  error_messages: Record<string, string>;
  /** Why a run that is not sealed has stopped. */
  stopped_by?: { code: ErrorCode; message: string };
  output: string;
  manifest: string | null;
  sealed: boolean;
}
