import type { BatchState } from "../../engines/batch-records.ts";
import type { StageState } from "../../engines/engine.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { Budget, Spending } from "../bill/costs.ts";
import type { TaskCounts, TaskOutcome } from "../worker/protocol.ts";

/** Batches at a provider that are in the same state. */
export interface BatchSum {
  /** `waiting`, `uploading`, `creating` before they are there; then the provider's own word. */
  state: string;
  batches: number;
  /** Requests in them, and how many of these have ended, as the provider counts them. */
  requests: number;
  done: number;
}

/** Progress and speed of one process with the work that it leads. */
export interface RunProgress {
  /** Rows with an outcome, including those of earlier calls, and the total. */
  done: number;
  rows: number;
  /** Of this call, like the tokens. */
  failed: number;
  /** Rows with an answer that reached its token limit. */
  cut: number;
  /** Rows in flight. */
  inFlight: number;
  usage: Usage;
  /** Of the last half minute. */
  rowsPerSecond: number;
  promptTokensPerSecond: number;
  completionTokensPerSecond: number;
  /** Until all rows are done, at that rate; null = unknown. */
  etaSeconds: number | null;
  /** The batches at a provider, with `model.via: batch`. */
  batches?: readonly BatchSum[];
}

/** Events of a run as they happen: for progress on a terminal, and `--json`. */
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
      /** Absent if it began before this process followed it. */
      attempt?: string;
      rows: number;
      /** Rows that earlier attempts had answered, and their cost. */
      resumed: number;
      resumedUsage: Usage;
    }
  | ({
      type: "task-progress";
      task: number;
      worker: string;
      inFlight: number;
      usage: Usage;
      /** The queue and the counts of each stage of this worker's pipeline. */
      stages?: readonly StageState[];
      /** The batches of the task at a provider. */
      batches?: readonly BatchState[];
    } & TaskCounts)
  | ({
      type: "task-end";
      task: number;
      worker: string;
      outcome: TaskOutcome;
      usage: Usage;
      error?: ErrorRecord;
      /** The choices of the worker's engine, if they changed since the last report. */
      choices?: Record<string, Json>;
      stages?: readonly StageState[];
    } & TaskCounts)
  /**
   * Every 5 s while rows are sent; like all other events except progress, it is kept in the run
   * directory.
   */
  | ({ type: "run-progress" } & RunProgress)
  | {
      type: "row-error";
      code: ErrorCode;
      message: string;
      hint?: string | undefined;
      count: number;
    }
  /** The spent part of a run's budget, over all calls. */
  | { type: "budget-progress"; spent: Spending; budget: Budget }
  | { type: "notice"; message: string }
  /** The run ended without a seal. */
  | { type: "run-stop"; error: ErrorRecord }
  | { type: "run-seal"; manifest: string; rows: number; failed: number };

/** The last line of stdout: one JSON object, whatever else was shown. */
export interface RunSummary {
  status: "SUCCESS" | "FAILED" | "CANCELED";
  run_id: string;
  /** Planned: rows × prompts × elements. */
  request_count: number;
  /** Answered. */
  response_count: number;
  /**
   * Answered rows by how their answers ended: `length` counts those with an answer that reached its
   * token limit. Absent for runs of earlier versions.
   */
  finish_reasons?: { stop: number; length: number };
  /** Answered requests with an earlier answer: nothing was paid for them. */
  reused_count?: number;
  /** Rows with prompts from `preparedDir`, and rows that were rendered. */
  prepared?: { hits: number; misses: number };
  /** Duration of this call. */
  run_time_sec: number;
  prompt_tokens: number;
  total_tokens_generated: number;
  tokens_per_sec: number;
  /** Cost of all calls, if the job names prices. */
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
  /** Their hints, of codes whose first error says more than docs/errors.md. */
  error_hints?: Record<string, string>;
  /** Why an unsealed run has stopped. */
  stopped_by?: { code: ErrorCode; message: string };
  output: string;
  manifest: string | null;
  sealed: boolean;
}
