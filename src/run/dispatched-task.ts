import { noUsage, type Usage } from "../foundation/inference.ts";
import type { ErrorCounts } from "./attempt/commit.ts";

/** What a coordinator knows of a task that is not committed. */
export interface TaskState {
  task: number;
  /** Failures of its own, and deaths of its worker, since it last got on. */
  failures: number;
  deaths: number;
  /** Rows done when it last failed. */
  doneAtFailure: number;
  suspects: number;
  /** What a later try finds on file is this call's own work. */
  hasBegun: boolean;
  /** Generated tokens that earlier calls had left on file. */
  resumedTokens: number;
}

/** A task that a worker has, as the worker told last. */
export interface RunningTask {
  state: TaskState;
  waiting: number;
  inFlight: number;
  done: number;
  failed: number;
  usage: Usage;
  errors: ErrorCounts;
}

/** A task that nobody has begun. */
export function newTask(task: number): TaskState {
  return {
    task,
    failures: 0,
    deaths: 0,
    doneAtFailure: 0,
    suspects: 0,
    hasBegun: false,
    resumedTokens: 0,
  };
}

/** A task that was just given to a worker, with so many rows to ask. */
export function newRunning(state: TaskState, waiting: number): RunningTask {
  return { state, waiting, inFlight: 0, done: 0, failed: 0, usage: noUsage, errors: {} };
}

/** True when more rows have an outcome than when the task last failed. */
export function gotOn({ done, state }: RunningTask): boolean {
  return done > state.doneAtFailure;
}
