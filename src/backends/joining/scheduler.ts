import type { SluiceError } from "../../foundation/errors.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { StateWord } from "../../run/status/state-words.ts";
import type { Submission } from "../../run/submissions.ts";

/** Workers that a scheduler is to start: one for each of some shares of a run. */
export interface ShareWork {
  job: JobSpec;
  /** The run directory, as workers open it. */
  location: string;
  /** 1, or the number of a retry. */
  generation: number;
  /** Number of shares into which all tasks are divided. */
  takers: number;
  /** The shares that get a worker, from 0, in order. */
  shares: readonly number[];
  /** The command line of Sluice, without a command of it. */
  program: readonly string[];
}

/** What would be sent: the same for the same work. */
export interface Rendered {
  /** A document for the scheduler's client. */
  text: string;
  /** Name of its file, for people and for `command`. */
  file: string;
  /** The command line that submits the file. */
  command: readonly string[];
}

/** A worker, as the scheduler tells of it. */
export interface ShareState {
  /** The scheduler's id of the submission, such as `123`. */
  submission: string;
  share: number;
  /** The scheduler's id of this worker, such as `123_4`. */
  id: string;
  state: StateWord;
  /** What the scheduler says beside the state, in its own words. */
  reason?: string;
  /** Why it waits longer than others: no node has room for it, or its machine cannot start it. */
  blockedBy?: "room" | "start";
  node?: string;
  /** Once it has ended by itself. */
  exitCode?: number;
}

/**
 * The workers of a run that a scheduler still knows, or why it does not say: then they may run or
 * start, whatever is heard of them.
 */
export type SeenWorkers = ShareState[] | SluiceError;

/** A run, as drivers find its workers. */
export interface SubmittedRun {
  location: string;
  /** The job of its last call. */
  job: JobSpec;
  /** What was recorded of its submissions, in order. */
  submissions: readonly Pick<Submission, "id" | "shares">[];
}

export interface LogOptions {
  /** Only those of this share; default: all. */
  share?: number;
  /** Continue with what is added, until `signal` is aborted. */
  follow: boolean;
  signal: AbortSignal;
  write(text: Uint8Array): Promise<void>;
}

/** A scheduler that starts identical processes: a pure renderer, and a thin driver. */
export interface Scheduler {
  /** The backend's name in a job. */
  readonly name: string;
  /** Pure. */
  render(work: ShareWork): Rendered | Promise<Rendered>;
  /** A machine like those of workers, to try things on. */
  renderDev?(job: JobSpec, program: readonly string[]): Promise<Rendered>;
  /** Refuses a job that its machines cannot carry out, before anything is planned. */
  check(job: JobSpec): Promise<void>;
  /** What the user should know of a job that it accepts. */
  notices?(job: JobSpec): string[];
  readonly client: SchedulerClient;
}

/**
 * The driver of a scheduler's own client. Errors are SluiceErrors: `SCHEDULER_MISSING` without the
 * client, `SCHEDULER_REFUSED` with the client's own words.
 */
export interface SchedulerClient {
  /** Most workers of one submission. */
  maxShares(): Promise<number>;
  /** @returns the scheduler's id. */
  submit(rendered: Rendered): Promise<string>;
  /**
   * The workers of a run that it still knows, whether or not their submission was recorded. Rejects
   * if it does not say: an empty list means that there is none.
   */
  look(run: SubmittedRun): Promise<ShareState[]>;
  /**
   * Present if `cancel` gives workers no time. It is called first, so that none starts that is not
   * there yet; then workers leave by themselves, as the run directory tells them.
   */
  hold?(ids: readonly string[]): Promise<void>;
  /** Ends the workers of these submissions. Without `hold`: with time to write what they have. */
  cancel(ids: readonly string[]): Promise<void>;
  logs(run: SubmittedRun, options: LogOptions): Promise<void>;
}

/** True while a worker runs or may still start. */
export function isActive({ state }: Pick<ShareState, "state">): boolean {
  return state === "pending" || state === "running";
}
