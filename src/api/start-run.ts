import type { RunDependencies } from "../run/dependencies.ts";
import type { RunLocation } from "../run/directory/locate.ts";
import type { Preparation } from "../run/dispatch/backend.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { RunRetryOptions } from "../run/retry/run-retry.ts";
import type { RunJobOptions, RunResult } from "../run/run-job.ts";

/** A job, carried out from its start or gone on with. */
export interface JobStart extends Pick<RunJobOptions, "overwrite" | "fork"> {
  kind: "job";
  job: JobSpec;
  /** Process rows that were appended to the input of a finished run. */
  extend: boolean;
}

/** A run that lies somewhere, gone on with by its own job. */
export interface ResumeStart {
  kind: "resume";
  location: RunLocation;
  change(stored: JobSpec): Promise<JobSpec>;
}

/** Rows of a sealed run, asked again. */
export interface RetryStart extends Pick<RunRetryOptions, "where" | "reread" | "change"> {
  kind: "retry";
  location: RunLocation;
}

/** What every run is given, whoever starts it. */
export interface StartOptions extends Preparation, Pick<RunJobOptions, "backendOf" | "onEvent"> {
  dependencies: RunDependencies;
}

/**
 * Carries a run out: the one way of the command line, of programs and of datasets. The engine is
 * looked at before anything is planned, and prepared before workers start.
 *
 * What it needs is imported here, after a worker was started ahead: both load side by side.
 *
 * @returns how it ended; of a retry undefined where no row is to be asked.
 * @throws SluiceError what `runJob`, `resumeRun` and `runRetry` throw.
 */
export function startRun(start: JobStart | ResumeStart, options: StartOptions): Promise<RunResult>;
export function startRun(start: RetryStart, options: StartOptions): Promise<RunResult | undefined>;
export async function startRun(
  start: JobStart | ResumeStart | RetryStart,
  options: StartOptions,
): Promise<RunResult | undefined> {
  const { backendOf, dependencies, onEvent, signal } = options;
  const carrying = { backendOf, onEvent, signal, preparation: options };
  if (start.kind === "job") {
    const { job, overwrite, fork } = start;
    const { runJob } = await import("../run/run-job.ts");
    const run = start.extend ? (await import("../run/retry/extend-run.ts")).runExtended : runJob;
    return await run(job, dependencies, { ...carrying, overwrite, fork });
  }
  const { location } = start;
  if (start.kind === "resume") {
    const { resumeRun } = await import("../run/resume-run.ts");
    return await resumeRun(location, dependencies, { ...carrying, change: start.change });
  }
  const { runRetry } = await import("../run/retry/run-retry.ts");
  const { where, reread, change } = start;
  const asked = { where, change, ...(reread && { reread }) };
  return await runRetry(location, dependencies, { ...carrying, ...asked });
}
