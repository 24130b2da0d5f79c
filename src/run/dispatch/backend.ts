import type { PrepareOptions } from "../../engines/engine-description.ts";
import type { DownloadProgress } from "../../engines/models/model-context.ts";
import type { SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { JobSpec } from "../job/schema.ts";
import type { RunContext } from "../run-context.ts";
import type { RunEvent } from "../status/events.ts";
import type { DispatchEnd } from "./dispatch.ts";

/** What a backend is to carry out: some tasks of one generation of one run. */
export interface BackendRun {
  context: RunContext;
  /** The run directory, as a worker elsewhere can open it. */
  location: string;
  /** The job as it is to be carried out now. */
  job: JobSpec;
  /** Tasks without a commit, in order. */
  tasks: readonly number[];
  /** Planned rows of a task. */
  rowsOf(task: number): number;
  workers: number;
  /** Failed rows at which the run stops; undefined = never. */
  maxFailedRows: number | undefined;
  failedBefore: number;
  onEvent(event: RunEvent): void;
  signal: AbortSignal;
}

/** The workers of a run. */
export interface WorkersChoice {
  workers: number;
  /** What a person should know about that. */
  notices: string[];
  /** CPU threads for the model of each worker, where workers share a machine. */
  threads?: number;
  /** Memory that is free for each, where that is known. */
  freeMemoryBytes?: number;
}

/** How an engine and its model are looked at and fetched before workers open them. */
export interface Preparation extends Pick<PrepareOptions, "install"> {
  /** Gets what is said meanwhile. */
  logger: Logger;
  signal: AbortSignal;
  /** Told what is fetched or waited for; undefined: it is there. */
  onStep?(step: DownloadProgress | { text: string } | undefined): void;
}

/** Where tasks run. It dispatches at least once; the commits make that exactly once. */
export interface Backend {
  readonly name: string;
  /**
   * How many workers it would start for so many rows, with the facts of the machines that they run
   * on. The coordinator's own machine says nothing of these.
   *
   * @throws SluiceError `JOB_INVALID` where the job names devices that are not there.
   */
  workersFor(job: JobSpec, rows: number): Promise<WorkersChoice>;
  /**
   * Refuses, before anything is planned, an engine or a model that workers could not have.
   *
   * @throws SluiceError such as `MODEL_UNKNOWN`.
   */
  check(job: JobSpec, preparation: Preparation): Promise<void>;
  /** Has packages and models ready where workers open them. @throws what fetching throws. */
  prepare(job: JobSpec, preparation: Preparation): Promise<void>;
  /** Runs until every task is committed, or the run had to stop. Never rejects. */
  run(run: BackendRun): Promise<DispatchEnd>;
}

/** Finds the backend that a job names. @throws SluiceError `JOB_INVALID` if there is none. */
export type BackendOf = (job: JobSpec) => Backend;

/** True when the run ended because somebody wished it, not because something is wrong. */
export function isCancellation(error: SluiceError | undefined): boolean {
  return error?.code === "RUN_CANCELED" || error?.code === "BUDGET_SPENT";
}
