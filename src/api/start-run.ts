import type { DelegatedCall, OpenBackend } from "../backends/context.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { RunLocation } from "../run/directory/locate.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { RowsOfRetry } from "../run/retry/plan-retry.ts";
import type { RunRetryOptions } from "../run/retry/run-retry.ts";
import type { CallOptions, RunJobOptions } from "../run/run-job.ts";
import type { RunResult } from "../run/status/run-result.ts";

/** A job to start, or to continue if its run exists. */
export interface JobStart extends Pick<RunJobOptions, "overwrite" | "fork"> {
  kind: "job";
  job: JobSpec;
  /** Process rows that were appended to the input of a finished run. */
  extend: boolean;
}

/** An existing run to continue with its stored job. */
export interface ResumeStart {
  kind: "resume";
  location: RunLocation;
  change(stored: JobSpec): Promise<JobSpec>;
}

/** Rows of a sealed run to process again. */
export interface RetryStart extends Pick<RunRetryOptions, "where" | "reread" | "change"> {
  kind: "retry";
  /** As in `RowsOfRetry`. */
  unfinished?: boolean | undefined;
  location: RunLocation;
}

/** What every run needs, from the command line and from programs. */
export interface StartOptions extends CallOptions, Pick<RunJobOptions, "cancelsBefore"> {
  backendOf(job: JobSpec): OpenBackend;
  dependencies: RunDependencies;
}

/**
 * Starts, continues or retries a run, for the command line, programs and datasets. Checks the
 * engine before planning, and prepares it before workers start.
 *
 * Modules are imported here, after a worker was started ahead, so that both load in parallel.
 *
 * @returns how it ended; for a retry undefined if there is no row to process.
 * @throws SluiceError errors of `runJob`, `resumeRun` and `runRetry`.
 */
export function startRun(start: JobStart | ResumeStart, options: StartOptions): Promise<RunResult>;
export function startRun(start: RetryStart, options: StartOptions): Promise<RunResult | undefined>;
export async function startRun(
  start: JobStart | ResumeStart | RetryStart,
  options: StartOptions,
): Promise<RunResult | undefined> {
  const { telemetry, caller } = options.dependencies;
  if (!telemetry) return await begin(start, options);
  const { RunSpans } = await import("../run/status/run-spans.ts");
  const spans = new RunSpans(telemetry, start.kind, caller);
  try {
    const result = await begin(start, {
      ...options,
      dependencies: { ...options.dependencies, trace: spans.context },
      onEvent(event) {
        spans.hear(event);
        options.onEvent(event);
      },
    });
    spans.end(result);
    return result;
  } catch (error) {
    spans.end(undefined, asSluiceError(error));
    throw error;
  }
}

async function begin(
  start: JobStart | ResumeStart | RetryStart,
  options: StartOptions,
): Promise<RunResult | undefined> {
  const { backendOf, dependencies, install, onEvent, signal, isDetached = false } = options;
  const delegate = (
    job: JobSpec,
    flags: Pick<DelegatedCall, "overwrite" | "fork" | "extend" | "retry">,
  ) => {
    const call = { dependencies, install, onEvent, signal, isDetached, ...flags };
    return backendOf(job).delegate?.(job, call);
  };
  const elsewhere = (job: JobSpec, rows?: RowsOfRetry) =>
    delegate(job, {
      ...{ overwrite: false, fork: false, extend: rows?.where === "appended" },
      ...(rows && rows.where !== "appended" && { retry: rows }),
    });
  if (start.kind === "job") {
    const { job, overwrite, fork, extend } = start;
    if (overwrite && fork) {
      throw new SluiceError("USAGE", "--overwrite replaces the run, and --fork leaves it", {
        hint: "give one of them",
      });
    }
    const delegated = delegate(job, { overwrite, fork, extend });
    if (delegated) return await delegated;
    const { runJob } = await import("../run/run-job.ts");
    const run = extend ? (await import("../run/retry/extend-run.ts")).runExtended : runJob;
    return await run(job, dependencies, { ...options, overwrite, fork });
  }
  const { location } = start;
  if (start.kind === "resume") {
    const { resumeRun } = await import("../run/resume-run.ts");
    const { change } = start;
    return await resumeRun(location, dependencies, { ...options, change, elsewhere });
  }
  const { resumeRetry, runRetry } = await import("../run/retry/run-retry.ts");
  const { where, reread, change, unfinished } = start;
  const asked = { ...options, where, change, elsewhere, reread };
  return await (unfinished ? resumeRetry : runRetry)(location, dependencies, asked);
}
