import type { PrepareOptions } from "../../engines/engine-description.ts";
import type { DownloadProgress } from "../../engines/models/model-context.ts";
import type { SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { JobSpec } from "../job/schema.ts";
import type { RunContext } from "../run-context.ts";
import type { RunEvent } from "../status/events.ts";
import type { DispatchEnd } from "./dispatch.ts";

/** Work for a backend: some tasks of one generation of a run. */
export interface BackendRun {
  context: RunContext;
  /** The run directory, by a path that a worker elsewhere can open. */
  location: string;
  /** The job with the present settings. */
  job: JobSpec;
  /** Tasks without a commit, in order. */
  tasks: readonly number[];
  rowsOf(task: number): number;
  workers: number;
  /** Failed rows at which the run stops; undefined = never. */
  maxFailedRows: number | undefined;
  failedBefore: number;
  /** Only submit the work: a scheduler continues with it when this process has ended. */
  isDetached: boolean;
  /** @param isStored a worker has written the event to its own file of events. */
  onEvent(event: RunEvent, isStored?: boolean): void;
  signal: AbortSignal;
}

export interface WorkersChoice {
  workers: number;
  /** Notes for people about that number. */
  notices: string[];
  cores?: number;
  /** Free memory for each worker, if known. */
  freeMemoryBytes?: number;
}

/** How an engine and its model are checked and fetched before workers open them. */
export interface Preparation extends Pick<PrepareOptions, "install"> {
  logger: Logger;
  signal: AbortSignal;
  /** Called with what is being fetched or waited for; undefined when it is there. */
  onStep?(step: DownloadProgress | { text: string } | undefined): void;
}

/**
 * A place where tasks run. It dispatches each task at least once; commits make that exactly once.
 */
export interface Backend {
  readonly name: string;
  /**
   * The number of workers for so many rows, with the facts of their machines. The coordinator's own
   * machine may be another.
   *
   * @throws SluiceError `JOB_INVALID` if the job names missing devices; the signal's reason.
   */
  workersFor(job: JobSpec, rows: number, signal?: AbortSignal): Promise<WorkersChoice>;
  /**
   * Refuses an engine or a model that workers could not open, before anything is planned.
   *
   * @throws SluiceError such as `MODEL_UNKNOWN`.
   */
  check(job: JobSpec, preparation: Preparation): Promise<void>;
  /**
   * Prepares packages and models where workers open them.
   * @throws errors of fetching.
   */
  prepare(job: JobSpec, preparation: Preparation): Promise<void>;
  /** Runs until every task is committed or the run must stop. Never rejects. */
  run(run: BackendRun): Promise<DispatchEnd>;
}

/**
 * Finds the backend that a job names.
 * @throws SluiceError `JOB_INVALID` if there is none.
 */
export type BackendOf = (job: JobSpec) => Backend;

/** True if a person ended the run, and not an error. */
export function isCancellation(error: SluiceError | undefined): boolean {
  return error?.code === "RUN_CANCELED" || error?.code === "BUDGET_SPENT";
}
