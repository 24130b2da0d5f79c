import { openBackends } from "../backends/registry.ts";
import { storeFromEnvironment } from "../data/s3/store-options.ts";
import { absoluteLocation } from "../data/storage/open.ts";
import type { Json } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import { type CancelEnd, cancelRun } from "../run/cancel.ts";
import { type Cleaning, cleanRun } from "../run/clean.ts";
import { locateRun, type RunLocation } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { changedJob } from "../run/job/change.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { readPlan } from "../run/plan/plan.ts";
import { abandonRetry as abandonRetryOf } from "../run/retry/abandon-retry.ts";
import type { RetryWhere } from "../run/retry/plan-retry.ts";
import type { RunResult } from "../run/run-job.ts";
import { backendContext } from "./backend-context.ts";
import { dependenciesFor, type PlaceOptions } from "./inspect.ts";
import { programError } from "./program-words.ts";
import { type RunOptions, surroundingsOf, withStart } from "./run.ts";
import { runDependencies } from "./run-dependencies.ts";
import { type StartOptions, startRun } from "./start-run.ts";
import { thisProcess } from "./this-process.ts";

/** How a run that lies somewhere is gone on with. */
export interface ResumeOptions
  extends Omit<RunOptions, "overwrite" | "fork" | "extend">,
    PlaceOptions {
  /** Keys of the job that are set anew, as `{ "workers.max": 2 }`. */
  set?: Readonly<Record<string, Json>>;
}

/** How rows of a finished run are asked again. */
export interface RetryOptions extends ResumeOptions {
  /** Which rows: those that failed, or those with an answer that was cut; default `failed`. */
  where?: RetryWhere;
  /** Read failed rows anew: from the input, where they were mended, or from a file of such rows. */
  reread?: "input" | { file: string };
}

/**
 * Goes on with the run that lies somewhere, by its own job: what `sluice resume` does. A retry that
 * is begun is finished. A run that is finished is left alone.
 *
 * @param output the run directory, or the results file, as the job's `output.path` names it.
 * @returns how it ended. A run that stopped before its end does not throw: `result.error` says why.
 * @throws SluiceError `NOT_A_RUN`, and what `run` throws.
 * @example
 * const { summary } = await resume("out", { set: { "workers.max": 2 } });
 * console.log(summary.rows.answered, "of", summary.rows.total);
 */
export async function resume(output: string, options: ResumeOptions = {}): Promise<RunResult> {
  return await started(output, options, (location, start) =>
    startRun({ kind: "resume", location, change: changeBy(options) }, start),
  );
}

/**
 * Asks rows of a finished run again, and puts the answers in their places, as `sluice retry` does.
 * Rows that fail once more stay as they were.
 *
 * @param output the run directory, or the results file, as the job's `output.path` names it.
 * @returns how it ended; undefined where no row is to be asked.
 * @throws SluiceError `NOT_A_RUN`; `RUN_OPEN` where the run is not finished; `JOB_INVALID` for keys
 *   that cannot be set anew; and what `run` throws.
 * @example
 * const result = await retry("out", { set: { "generation.maxNewTokens": 400 } });
 * console.log(result?.summary.rows.failed ?? 0, "rows failed again");
 */
export async function retry(
  output: string,
  options: RetryOptions = {},
): Promise<RunResult | undefined> {
  const { where = "failed", reread: given } = options;
  return await started(output, options, async (location, start) => {
    const { workingDirectory } = surroundingsOf(options);
    const reread =
      typeof given === "object" ? { file: absoluteLocation(workingDirectory, given.file) } : given;
    const asked = { where, change: changeBy(options), ...(reread && { reread }) };
    return await startRun({ kind: "retry", location, ...asked }, start);
  });
}

/**
 * Drops the retry of a run that is begun: results stay as they were before it.
 *
 * @returns the answers that it had got, which no result has; undefined where no retry is begun.
 * @throws SluiceError `NOT_A_RUN`, and `COORDINATOR_LIVES` while a process works on it.
 * @example
 * const dropped = await abandonRetry("out");
 * console.log(dropped === undefined ? "no retry is begun" : `${dropped.answers} answers dropped`);
 */
export async function abandonRetry(
  output: string,
  options: PlaceOptions = {},
): Promise<{ answers: number } | undefined> {
  return await managed(output, options, async (location, dependencies) => {
    const abandoned = await abandonRetryOf(location, dependencies);
    return abandoned && { answers: abandoned.dropped.answers };
  });
}

/** How a run is stopped. */
export interface CancelOptions extends PlaceOptions {
  /** How long its end is waited for, in milliseconds; 0: not. Default 15,000. */
  waitMs?: number;
  /** Ends the waiting. */
  signal?: AbortSignal;
}

/**
 * Asks whoever works on a run, on whatever machine, to stop: what `sluice cancel` does. Rows in
 * flight are finished and kept.
 *
 * @returns `ended`: all have left; `pending`: somebody still works after the wait; `asked`: asked,
 *   and not waited for; `idle`: nobody was at work.
 * @throws SluiceError `NOT_A_RUN`, and the signal's reason.
 * @example
 * if ((await cancel("out")) === "ended") console.log("stopped; resume goes on with it");
 */
export async function cancel(output: string, options: CancelOptions = {}): Promise<CancelEnd> {
  const { waitMs = 15_000, signal } = options;
  return await managed(output, options, (location, dependencies) =>
    cancelRun(dependencies, location, { waitMs, ...(signal && { signal }) }),
  );
}

/**
 * Removes what a finished run no longer needs; results and their proof stay: what `sluice clean`
 * does.
 *
 * @param options `dryRun`: only count.
 * @throws SluiceError `NOT_A_RUN`, `RUN_OPEN` where it is not finished, `RUN_DAMAGED` where results
 *   are missing, `COORDINATOR_LIVES` while a process works on it.
 * @example
 * const { freedBytes } = await clean("out");
 * console.log(freedBytes, "bytes freed");
 */
export async function clean(
  output: string,
  options: PlaceOptions & { dryRun?: boolean } = {},
): Promise<Cleaning> {
  return await managed(output, options, (location, dependencies) =>
    cleanRun(dependencies, location, options.dryRun ?? false),
  );
}

async function managed<T>(
  output: string,
  options: PlaceOptions,
  action: (location: RunLocation, dependencies: ReturnType<typeof dependenciesFor>) => Promise<T>,
): Promise<T> {
  try {
    const path = absoluteLocation(thisProcess().workingDirectory, output);
    return await action(locateRun(path), dependenciesFor(options));
  } catch (error) {
    throw programError(error);
  }
}

/** With the backend, and the stores that the run's job names. */
async function started<Result extends RunResult | undefined>(
  output: string,
  options: ResumeOptions,
  start: (location: RunLocation, options: StartOptions) => Promise<Result>,
): Promise<Result> {
  const surroundings = surroundingsOf(options);
  const { environment, workingDirectory } = surroundings;
  const { logger = silentLogger } = options;
  const backends = openBackends(backendContext(surroundings, logger));
  return await withStart(options, surroundings, backends, async (optionsFor) => {
    const location = locateRun(absoluteLocation(workingDirectory, output));
    const given = Object.entries({ ...storeFromEnvironment(environment), ...options.store });
    const asked = Object.fromEntries(given.filter(([, value]) => value !== undefined));
    const { openStorage } = runDependencies(surroundings, logger, asked);
    const { store } = (await readPlan(runStorage(openStorage(location.directory)))).job;
    return await start(location, optionsFor({ ...store, ...asked }));
  });
}

function changeBy({ set = {} }: ResumeOptions): (stored: JobSpec) => Promise<JobSpec> {
  const sets = Object.entries(set).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return async (stored) => (sets.length === 0 ? stored : await changedJob(stored, {}, sets));
}
