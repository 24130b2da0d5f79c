import { resolve } from "node:path";
import type { BackendContext } from "../backends/context.ts";
import {
  engineSteps,
  type OpenBackends,
  openBackends,
  openInside,
  workerEnvironment,
} from "../backends/registry.ts";
import type { StoreOptions } from "../data/s3/store-options.ts";
import type { openEngine } from "../engines/registry.ts";
import { isPackageWhole } from "../entry.ts";
import { assertOptions, type OptionNames } from "../foundation/call-options.ts";
import { SluiceError } from "../foundation/errors.ts";
import { type Logger, silentLogger, textLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { hasDefaultBackend } from "../run/job/backend-name.ts";
import { jobFromValue } from "../run/job/from-value.ts";
import { loadJob } from "../run/job/load.ts";
import type { JobInput, JobSpec } from "../run/job/schema.ts";
import { type MeasureRequest, previewJob, type RunPreview } from "../run/preview/preview.ts";
import type { RunEvent } from "../run/status/events.ts";
import type { RunResult } from "../run/status/run-result.ts";
import { openProgress, type Progress } from "../terminal/progress.ts";
import { backendContext } from "./backend-context.ts";
import { telemetryOfProgram } from "./open-telemetry.ts";
import { programError, programEvent, programText } from "./program-words.ts";
import { engineContext, runDependencies } from "./run-dependencies.ts";
import { type StartOptions, startRun } from "./start-run.ts";
import type { Surroundings } from "./surroundings.ts";
import { ownTerminal, thisProcess } from "./this-process.ts";

/** How a program runs a job. Everything has a default. */
export interface RunOptions {
  /** Replace the run that the output holds. */
  overwrite?: boolean;
  /** Write beside the output, if it holds a run of another job. */
  fork?: boolean;
  /** Process rows that were appended to the input of a finished run; default false. */
  extend?: boolean;
  /** Fetch engine packages and models that are not on this machine; default true. */
  install?: boolean;
  /**
   * Called for each event, as it happens. If it throws or rejects, the run stops, and the call
   * throws the error.
   */
  onEvent?(event: RunEvent): void;
  /** Show progress on stderr, as `sluice run` does; default false. */
  progress?: boolean;
  /** Abort it to stop cleanly: no more rows are sent, and the same call continues later. */
  signal?: AbortSignal;
  /** Gets log lines, including those of workers; default: none. */
  logger?: Logger;
  /** The folder where relative paths start; default: that of the process. */
  workingDirectory?: string;
  /**
   * Environment of the workers, also for `apiKeyEnv` and for variables of a job file; default: that
   * of the process.
   */
  environment?: Readonly<Record<string, string | undefined>>;
}

const planningNames = {
  ...{ install: true, onEvent: true, signal: true, logger: true },
  ...{ workingDirectory: true, environment: true },
} as const;
/** The options of calls that work on a run which exists. */
export const continuingNames = { ...planningNames, progress: true } as const;
export const runNames: OptionNames<RunOptions> = {
  ...continuingNames,
  ...{ overwrite: true, fork: true, extend: true },
};

/**
 * Runs a job with worker processes on this machine, as `sluice run` does. The same call continues a
 * stopped run and does nothing to a sealed one.
 *
 * A job is an object with the keys of the job file, or the path of a job file, which is read as by
 * `sluice run -c`. Only the command line reads standard input (`-`).
 *
 * @returns how it ended. A run that stopped before its end does not throw: `result.error` says why.
 * @throws SluiceError for what prevents a start: `JOB_INVALID`, `INPUT_MISSING`, `RUN_DIFFERS`, ….
 * @example
 * const { summary } = await run({
 *   input: "reviews.jsonl",
 *   model: { engine: "fake" },
 *   prompt: "Is this review positive? {{ text }}",
 *   output: { path: "out", field: "sentiment" },
 * });
 * console.log(summary.rows.answered, "of", summary.rows.total, "rows in", summary.output);
 */
export async function run(job: JobInput | string, options: RunOptions = {}): Promise<RunResult> {
  assertOptions("run", options, runNames);
  return await runWith(job, options, {});
}

/** The tracing of a run, and the span to which it belongs. */
export type RunTracing = Pick<RunDependencies, "telemetry" | "caller">;

/** What a run gets of this very process. With functions or an engine, its only worker is here. */
export interface RunParts {
  /** Stages of the job. */
  functions?: readonly unknown[];
  /** Answers in the place of the job's engine, which is neither checked nor prepared. */
  openEngine?: typeof openEngine;
  tracing?: RunTracing | undefined;
}

/** The same with parts of this program. */
export async function runWith(
  job: JobInput | string,
  options: RunOptions,
  { tracing, ...parts }: RunParts,
): Promise<RunResult> {
  const { overwrite = false, fork = false, extend = false, logger = silentLogger } = options;
  const surroundings = surroundingsOf(options);
  const backends = backendsFor(surroundings, logger, parts);
  return await withStart(options, surroundings, backends, async (optionsFor) => {
    // A worker starts while the job is read and planned: both take about as long.
    if (await isLocal(job, surroundings)) backends.of({ backend: "local" }).startAhead();
    const spec = await jobOf(job, surroundings);
    backends.of(spec).startAhead(spec);
    return await startRun(
      { kind: "job", job: spec, overwrite, fork, extend },
      tracedBy(tracing, optionsFor(spec.store)),
    );
  });
}

function tracedBy(tracing: RunTracing | undefined, options: StartOptions): StartOptions {
  if (!tracing) return options;
  return { ...options, dependencies: { ...options.dependencies, ...tracing } };
}

/** True if a job is known to run on this machine before it is read. */
async function isLocal(job: JobInput | string, surroundings: Surroundings): Promise<boolean> {
  if (typeof job === "string") return await hasDefaultBackend({ ...surroundings, file: job });
  // Anything that cannot be a job is refused where jobs are read.
  return job?.backend === undefined || job.backend === "local";
}

/**
 * Runs a job for a program. Result and errors name options of programs instead of flags. Everything
 * that was opened is closed at the end.
 *
 * @param start gets the options for the stores that the job of the run names.
 */
export async function withStart<Result extends RunResult | undefined>(
  options: Pick<RunOptions, "install" | "logger" | "onEvent" | "progress" | "signal">,
  surroundings: Surroundings,
  backends: OpenBackends,
  start: (optionsFor: (store?: StoreOptions) => StartOptions) => Promise<Result>,
): Promise<Result> {
  const { install = true } = options;
  const { onEvent, signal, failure } = guarded(options);
  let shown: Progress | undefined;
  try {
    const telemetry = await telemetryOfProgram();
    const result = await start((store) => {
      shown = options.progress ? openProgress({}, ownTerminal()) : undefined;
      const logger = options.logger ?? shown?.logger ?? silentLogger;
      return {
        ...{ backendOf: backends.of, install, signal },
        dependencies: runDependencies({ ...surroundings, telemetry }, logger, store),
        logger: tellingLogger(logger, onEvent),
        onEvent: (event) => {
          const inProgramWords = programEvent(event);
          shown?.onEvent(inProgramWords);
          onEvent(inProgramWords);
        },
        ...(shown && { onStep: shown.onStep }),
      };
    });
    const failed = failure();
    if (failed) throw failed.error;
    return result?.error ? { ...result, error: programError(result.error) } : result;
  } catch (error) {
    const failed = failure();
    throw failed ? failed.error : programError(error);
  } finally {
    shown?.close();
    backends.close();
  }
}

/** The program's function for events: if it throws, the run stops, and `failure` has the error. */
function guarded({ onEvent, signal }: Pick<RunOptions, "onEvent" | "signal">) {
  const stop = new AbortController();
  let failed: { error: unknown } | undefined;
  let isOver = false;
  const fail = (error: unknown) => {
    // Nobody waits for the call any more: the program hears of it as of any rejection.
    if (isOver) throw error;
    failed ??= { error };
    stop.abort();
  };
  return {
    signal: signal ? AbortSignal.any([signal, stop.signal]) : stop.signal,
    failure() {
      isOver = true;
      return failed;
    },
    onEvent(event: RunEvent): void {
      if (failed) return;
      try {
        // The type allows functions that are async.
        const returned: unknown = onEvent?.(event);
        if (returned instanceof Promise) returned.catch(fail);
      } catch (error) {
        fail(error);
      }
    },
  };
}

/** Also sends warnings as events: without a logger they would be lost. */
export function tellingLogger(logger: Logger, onEvent: RunOptions["onEvent"]): Logger {
  const events = textLogger((line) => onEvent?.({ type: "notice", message: line.trim() }));
  return {
    log(level, message, fields) {
      logger.log(level, message, fields);
      if (level === "warn" || level === "error") events.log("info", message, fields);
    },
  };
}

/** The steps before a worker whose engine needs nothing of this machine. */
const unprepared = {
  check: async () => {},
  prepare: async () => {},
  workersFor: async () => ({ workers: 1, notices: [] }),
};

function backendsFor(
  surroundings: Surroundings,
  logger: Logger,
  { functions = [], openEngine: open }: Omit<RunParts, "tracing">,
): OpenBackends {
  const context = backendContext(surroundings, logger);
  if (functions.length === 0 && !open) return openBackends(context);
  const opened = openInside(context, ({ store, env }) => {
    const own = { ...surroundings, environment: workerEnvironment(context.environment, env) };
    return {
      dependencies: runDependencies(own, logger, store),
      engineContext: { ...engineContext(own, logger), functions },
      ...(open && { openEngine: open }),
    };
  });
  const inside = open ? { ...opened, ...unprepared } : opened;
  return { of: () => inside, close: () => inside.close() };
}

/** How a program looks at a job before it runs it. */
export interface PlanOptions
  extends Pick<
    RunOptions,
    "onEvent" | "logger" | "workingDirectory" | "environment" | "install" | "signal"
  > {
  /** Number of rows whose requests are shown; default 2. */
  shownRows?: number;
  /**
   * Process so many rows, spread over the input, and estimate tokens, money and time from their
   * cost; at least 2. `true` = twice as many as the engine holds at once. Default: none.
   */
  measure?: number | true;
}

const planNames: OptionNames<PlanOptions> = { ...planningNames, shownRows: true, measure: true };

/**
 * What a job would do, as `sluice plan` shows it: rows, tasks, requests, an estimate of tokens,
 * money and time, the first rendered prompts. Writes nothing, and sends nothing without `measure`.
 *
 * @throws SluiceError for whatever would prevent the job's start.
 * @example
 * const { rows, tasks, shown } = await plan("job.yaml");
 * console.log(rows, "rows in", tasks, "tasks; the first sends", shown[0]?.requests);
 */
export async function plan(job: JobInput | string, options: PlanOptions = {}): Promise<RunPreview> {
  assertOptions("plan", options, planNames);
  const { shownRows = 2, logger = silentLogger, onEvent } = options;
  const surroundings = surroundingsOf(options);
  const context = backendContext(surroundings, logger);
  const backends = openBackends(context);
  try {
    const spec = await jobOf(job, surroundings);
    const preview = await previewJob(spec, runDependencies(surroundings, logger, spec.store), {
      shownRows,
      backend: backends.of(spec),
      onEvent: (event) => onEvent?.(programEvent(event)),
      measure: options.measure === undefined ? undefined : measureOf(options, context),
    });
    return { ...preview, notices: preview.notices.map(programText) };
  } catch (error) {
    throw programError(error);
  } finally {
    backends.close();
  }
}

function measureOf(
  { measure, install = true, signal }: PlanOptions,
  context: BackendContext,
): MeasureRequest {
  if (typeof measure === "number" && !(Number.isSafeInteger(measure) && measure >= 2)) {
    throw new SluiceError("USAGE", `measure must be a whole number of 2 or more, not ${measure}`);
  }
  const stop = signal ?? new AbortController().signal;
  return {
    rows: measure === true ? undefined : measure,
    openEngine: (job) =>
      engineSteps(context).open(job, { install, logger: context.logger, signal: stop }),
    signal: stop,
  };
}

/** This process, changed by the options. */
export function surroundingsOf(
  options: Pick<RunOptions, "workingDirectory" | "environment">,
): Surroundings {
  if (!isPackageWhole()) {
    throw new SluiceError("PACKAGE_BUNDLED", "no worker could be started from them");
  }
  const own = thisProcess();
  return {
    ...own,
    environment: options.environment ?? own.environment,
    workingDirectory: resolve(own.workingDirectory, options.workingDirectory ?? "."),
  };
}

/** The job that a program gave, checked. */
export async function jobOf(job: JobInput | string, surroundings: Surroundings): Promise<JobSpec> {
  const { environment, workingDirectory, process } = surroundings;
  const spec =
    typeof job === "string"
      ? (await loadJob({ file: job, environment, workingDirectory })).job
      : jobFromValue(job, workingDirectory, process.userDirectory);
  if (spec.input.every(({ path }) => path !== "-")) return spec;
  throw new SluiceError("UNSUPPORTED", "standard input is read by the command line only", {
    field: "input.path",
    hint: "write the rows to a file, or pipe them into sluice run",
  });
}
