import { workerEnvironment } from "../backends/open.ts";
import type { PrepareOptions } from "../engines/engine-description.ts";
import type { DownloadProgress } from "../engines/models/model-context.ts";
import type { Logger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { RunLocation } from "../run/directory/locate.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { RunRetryOptions } from "../run/retry/run-retry.ts";
import type { RunJobOptions, RunResult } from "../run/run-job.ts";
import { engineContext } from "./run-dependencies.ts";
import type { Surroundings } from "./surroundings.ts";

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
export interface StartOptions
  extends EngineStepsOptions,
    Pick<RunJobOptions, "backend" | "onEvent"> {
  dependencies: RunDependencies;
}

/**
 * Carries a run out: the one way of the command line, of programs and of datasets. The engine is
 * looked at before anything is planned, and prepared before workers start.
 *
 * It stands here, above the backends, because engines are prepared with the environment that
 * workers will have. What it starts is loaded by then: a worker that was started ahead comes first.
 *
 * @returns how it ended; of a retry undefined where no row is to be asked.
 * @throws SluiceError what `runJob`, `resumeRun`, `runRetry` and `checkEngine` throw.
 */
export function startRun(start: JobStart | ResumeStart, options: StartOptions): Promise<RunResult>;
export function startRun(start: RetryStart, options: StartOptions): Promise<RunResult | undefined>;
export async function startRun(
  start: JobStart | ResumeStart | RetryStart,
  options: StartOptions,
): Promise<RunResult | undefined> {
  const { backend, dependencies, onEvent, signal } = options;
  const { check, prepare } = engineSteps(options);
  const carrying = { backend, onEvent, signal, prepare };
  if (start.kind === "job") {
    const { job, overwrite, fork } = start;
    const { runJob } = await import("../run/run-job.ts");
    const run = start.extend ? (await import("../run/retry/extend-run.ts")).runExtended : runJob;
    return await run(job, dependencies, { ...carrying, overwrite, fork, beforePlan: check });
  }
  const { location } = start;
  if (start.kind === "resume") {
    const { resumeRun } = await import("../run/resume-run.ts");
    return await resumeRun(location, dependencies, { ...carrying, change: start.change });
  }
  const { runRetry } = await import("../run/retry/run-retry.ts");
  const { where, reread } = start;
  const change = async (stored: JobSpec) => {
    const job = await start.change(stored);
    // Once planned, a retry keeps its model until it is finished.
    await check(job);
    return job;
  };
  const asked = { where, change, ...(reread && { reread }) };
  return await runRetry(location, dependencies, { ...carrying, ...asked });
}

export interface EngineStepsOptions extends Pick<PrepareOptions, "install"> {
  surroundings: Surroundings;
  /** Gets what is said while an engine is looked at and prepared. */
  logger: Logger;
  signal: AbortSignal;
  /** Told what is fetched or waited for; undefined: it is there. */
  onStep?(step: DownloadProgress | { text: string } | undefined): void;
}

/** What is done with the engine of a job before workers open it, as they would. */
export function engineSteps(options: EngineStepsOptions) {
  const { surroundings, logger, signal, install, onStep } = options;
  const contextOf = ({ env }: JobSpec) => {
    const { clock, random, workingDirectory, process } = surroundings;
    const environment = workerEnvironment(surroundings.environment, env);
    const own = { clock, random, workingDirectory, process, environment };
    return { ...engineContext(own, logger), signal };
  };
  return {
    /** The outside world as the engine sees it from here. */
    contextOf,
    /** Refuses what cannot be had, before anything is planned. */
    async check(job: JobSpec): Promise<void> {
      const { checkEngine } = await import("../engines/prepare-engine.ts");
      await checkEngine(job.model, contextOf(job), { install });
    },
    /** Fetches what is not here. */
    async prepare(job: JobSpec): Promise<void> {
      const { prepareEngine } = await import("../engines/prepare-engine.ts");
      try {
        await prepareEngine(job.model, contextOf(job), {
          install,
          ...(onStep && { onProgress: onStep }),
          onWait: (what) => onStep?.({ text: `waiting for another process that fetches ${what}` }),
        });
      } finally {
        onStep?.(undefined);
      }
    },
  };
}
