import { openBackends } from "../backends/registry.ts";
import { storeFromEnvironment } from "../data/s3/store-options.ts";
import { assertOptions, type OptionNames } from "../foundation/call-options.ts";
import type { Json } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import type { CancelEnd } from "../run/cancel.ts";
import { type Cleaning, cleanRun } from "../run/clean.ts";
import { locateRun, type RunLocation } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { changedJob } from "../run/job/change.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { readPlan } from "../run/plan/plan.ts";
import { abandonRetry as abandonRetryOf } from "../run/retry/abandon-retry.ts";
import type { RetryWhere } from "../run/retry/plan-retry.ts";
import type { RunResult } from "../run/status/run-result.ts";
import { backendContext } from "./backend-context.ts";
import { dependenciesFor, type PlaceOptions, placeNames } from "./inspect.ts";
import { programError } from "./program-words.ts";
import { continuingNames, type RunOptions, surroundingsOf, withStart } from "./run.ts";
import { runDependencies } from "./run-dependencies.ts";
import { cancelAll, openScheduled } from "./scheduled-run.ts";
import { type StartOptions, startRun } from "./start-run.ts";
import { placeIn } from "./surroundings.ts";
import { thisProcess } from "./this-process.ts";

/** How an existing run is continued. */
export interface ResumeOptions
  extends Omit<RunOptions, "overwrite" | "fork" | "extend">,
    PlaceOptions {
  /** Changed keys of the job, such as `{ "workers.max": 2 }`. */
  set?: Readonly<Record<string, Json>>;
}

/** How rows of a finished run are processed again. */
export interface RetryOptions extends ResumeOptions {
  /** Which rows: failed ones, or those with a cut answer; default `failed`. */
  where?: RetryWhere;
  /** Read failed rows again: from the corrected input, or from a file of corrected rows. */
  reread?: "input" | { file: string };
}

const resumeNames: OptionNames<ResumeOptions> = { ...continuingNames, ...placeNames, set: true };
const retryNames: OptionNames<RetryOptions> = { ...resumeNames, where: true, reread: true };

/**
 * Continues a run with its stored job, as `sluice resume` does. Finishes an unfinished retry. Does
 * nothing to a finished run.
 *
 * @param output the run directory, or the results file, as the job's `output.path` names it.
 * @returns how it ended. A run that stopped before its end does not throw: `result.error` says why.
 * @throws SluiceError `NOT_A_RUN`, and what `run` throws.
 * @example
 * const { summary } = await resume("out", { set: { "workers.max": 2 } });
 * console.log(summary.rows.answered, "of", summary.rows.total);
 */
export async function resume(output: string, options: ResumeOptions = {}): Promise<RunResult> {
  assertOptions("resume", options, resumeNames);
  return await started(output, options, (location, start) =>
    startRun({ kind: "resume", location, change: changeBy(options) }, start),
  );
}

/**
 * Processes rows of a finished run again and replaces their results, as `sluice retry` does. Rows
 * that fail again keep their old results.
 *
 * @param output the run directory, or the results file, as the job's `output.path` names it.
 * @returns how it ended; undefined if there is no row to process.
 * @throws SluiceError `NOT_A_RUN`; `RUN_OPEN` if the run is not finished; `JOB_INVALID` for keys
 *   that cannot be set anew; and what `run` throws.
 * @example
 * const result = await retry("out", { set: { "generation.maxNewTokens": 400 } });
 * console.log(result?.summary.rows.failed ?? 0, "rows failed again");
 */
export async function retry(
  output: string,
  options: RetryOptions = {},
): Promise<RunResult | undefined> {
  assertOptions("retry", options, retryNames);
  const { where = "failed", reread: given } = options;
  return await started(output, options, async (location, start) => {
    const fileOf = (path: string) => ({ file: placeIn(surroundingsOf(options), path) });
    const reread = typeof given === "object" ? fileOf(given.file) : given;
    const change = changeBy(options);
    return await startRun({ kind: "retry", location, where, change, reread }, start);
  });
}

/**
 * Drops the unfinished retry of a run. The results stay as they were before it.
 *
 * @returns the number of answers that it had, which no result contains; undefined without a retry.
 * @throws SluiceError `NOT_A_RUN`, and `COORDINATOR_LIVES` while a process works on it.
 * @example
 * const dropped = await abandonRetry("out");
 * console.log(dropped === undefined ? "no retry is begun" : `${dropped.answers} answers dropped`);
 */
export async function abandonRetry(
  output: string,
  options: PlaceOptions = {},
): Promise<{ answers: number } | undefined> {
  assertOptions("abandonRetry", options, placeNames);
  return await managed(output, options, async (location, dependencies) => {
    const abandoned = await abandonRetryOf(location, dependencies);
    return abandoned && { answers: abandoned.dropped.answers };
  });
}

/** How a run is stopped. */
export interface CancelOptions extends PlaceOptions {
  /** Milliseconds to wait for the end; 0: do not wait. Default 15,000. */
  waitMs?: number;
  /** Ends the waiting. */
  signal?: AbortSignal;
}

/**
 * Tells all processes of a run, on any machine, to stop, as `sluice cancel` does. Rows in flight
 * are finished and kept.
 *
 * @returns `ended`: all have exited; `pending`: some still work after the wait; `asked`: told,
 *   without waiting; `idle`: no process was at work.
 * @throws SluiceError `NOT_A_RUN`, the signal's reason, an error of the provider that still has
 *   batches of the run, and `SCHEDULER_MISSING` if workers of a
 *   scheduler may still start because its client is not here.
 * @example
 * if ((await cancel("out")) === "ended") console.log("stopped; resume continues it");
 */
export async function cancel(output: string, options: CancelOptions = {}): Promise<CancelEnd> {
  assertOptions("cancel", options, { ...placeNames, waitMs: true, signal: true });
  const { waitMs = 15_000, signal } = options;
  return await managed(output, options, async (location, dependencies) => {
    const run = await openScheduled(location, dependencies, thisProcess());
    const { end, placed, batches } = await cancelAll(run, { waitMs, signal });
    if (typeof placed !== "number") throw placed;
    if (typeof batches !== "number") throw batches;
    return end;
  });
}

/**
 * Removes files that a finished run no longer needs, as `sluice clean` does. Results and their
 * proof stay.
 *
 * @param options `dryRun`: only count.
 * @throws SluiceError `NOT_A_RUN`, `RUN_OPEN` if it is not finished, `RUN_DAMAGED` if results are
 *   missing, `COORDINATOR_LIVES` while a process works on it.
 * @example
 * const { freedBytes } = await clean("out");
 * console.log(freedBytes, "bytes freed");
 */
export async function clean(
  output: string,
  options: PlaceOptions & { dryRun?: boolean } = {},
): Promise<Cleaning> {
  assertOptions("clean", options, { ...placeNames, dryRun: true });
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
    const path = placeIn(thisProcess(), output);
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
  const { environment } = surroundings;
  const { logger = silentLogger } = options;
  const backends = openBackends(backendContext(surroundings, logger));
  return await withStart(options, surroundings, backends, async (optionsFor) => {
    const location = locateRun(placeIn(surroundings, output));
    const given = Object.entries({ ...storeFromEnvironment(environment), ...options.store });
    const asked = Object.fromEntries(given.filter(([, value]) => value !== undefined));
    const { openStorage } = runDependencies(surroundings, logger, asked);
    const { store } = (await readPlan(runStorage(openStorage(location.directory)))).job;
    return await start(location, optionsFor({ ...store, ...asked }));
  });
}

function changeBy(options: ResumeOptions): (stored: JobSpec) => Promise<JobSpec> {
  const { set = {} } = options;
  const { workingDirectory, process } = surroundingsOf(options);
  const sets = Object.entries(set).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return async (stored) =>
    sets.length === 0
      ? stored
      : await changedJob(stored, sets, workingDirectory, process.userDirectory);
}
