import type { Storage } from "../../data/storage/storage.ts";
import { wordedError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { pricesOf } from "../bill/costs.ts";
import { Coordinator } from "../coordinate/coordinator.ts";
import type { RunDependencies } from "../dependencies.ts";
import type { RunLocation } from "../directory/locate.ts";
import { runStorage, runWords } from "../directory/run-storage.ts";
import { differingAnswers } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { readPlan } from "../plan/plan.ts";
import { runContext } from "../run-context.ts";
import { type CallOptions, runAndSeal, withSharedLimits } from "../run-job.ts";
import type { Manifest } from "../seal/manifest.ts";
import { publishNewestSeal } from "../seal/publish-seal.ts";
import type { RunResult } from "../status/run-result.ts";
import { openRetry } from "./abandon-retry.ts";
import { correctedTasks } from "./corrected-rows.ts";
import {
  type FindTasks,
  lastJob,
  planRetry,
  type RetryPlan,
  type RetryRequest,
  type RetryWhere,
  type RowsOfRetry,
  retriedJob,
} from "./plan-retry.ts";
import { sealRetry } from "./seal-retry.ts";

export interface RunRetryOptions extends CallOptions {
  where: RetryWhere;
  /** Reads the rows again: from the input, or from a file of corrected rows (an absolute path). */
  reread?: RetryRequest["reread"];
  /** Makes the present job from the last one. */
  change(stored: JobSpec): Promise<JobSpec>;
  /** Carries out a retry whose coordinator is elsewhere; undefined if it is here. */
  elsewhere?(job: JobSpec, rows: RowsOfRetry): Promise<RunResult | undefined> | undefined;
}

/**
 * Sends rows of a sealed run again, as its next generation, and seals that. A row's result is
 * replaced only by a success. Another call of the same retry continues where it stopped.
 *
 * @returns undefined if there is no row to send.
 * @throws SluiceError errors of `retriedJob` and `planRetry`, and `COORDINATOR_LIVES`.
 */
export async function runRetry(
  location: RunLocation,
  dependencies: RunDependencies,
  options: RunRetryOptions,
): Promise<RunResult | undefined> {
  const storage = runStorage(dependencies.openStorage(location.directory));
  const job = await retriedJob(storage, async (stored) => {
    const changed = await options.change(stored);
    // Once planned, a retry keeps its model until it is finished.
    await options.backendOf(changed).check(changed, options);
    return changed;
  });
  const { where, reread } = options;
  const request: RetryRequest = { where, reread, job };
  const findTasks = reread && correctedTasks(storage, dependencies, request, options.onEvent);
  return await runGeneration(location, dependencies, request, options, findTasks);
}

/**
 * Continues the unfinished retry of a sealed run, whatever it asks.
 *
 * @param options `change`: makes the present job from that of its last call.
 * @returns undefined if no retry is unfinished.
 */
export async function resumeRetry(
  location: RunLocation,
  dependencies: RunDependencies,
  options: CallOptions & Partial<Pick<RunRetryOptions, "change" | "elsewhere">>,
): Promise<RunResult | undefined> {
  const storage = runStorage(dependencies.openStorage(location.directory));
  const begun = await openRetry(storage, await readPlan(storage));
  if (!begun) return undefined;
  const { where, reread } = begun;
  const last = await lastJob(storage, begun);
  const job = (await options.change?.(last)) ?? last;
  const request: RetryRequest = { where: where as RetryWhere, reread, job, unfinished: true };
  const isChanged = differingAnswers(begun.job, job).length > 0;
  // If another process has finished it meanwhile, nothing is begun.
  const findTasks: FindTasks | undefined = isChanged
    ? reread && correctedTasks(storage, dependencies, request, options.onEvent)
    : () => ({ tasks: [] });
  return await runGeneration(location, dependencies, request, options, findTasks);
}

/** Leads a run while its next generation is planned, carried out and sealed: here or elsewhere. */
export async function runGeneration(
  location: RunLocation,
  dependencies: RunDependencies,
  request: RetryRequest,
  options: CallOptions & Pick<Partial<RunRetryOptions>, "elsewhere">,
  findTasks?: FindTasks,
): Promise<RunResult | undefined> {
  const { job, ...rows } = request;
  const delegated = options.elsewhere?.(job, rows);
  if (delegated) return await delegated;
  const { clock, random, processes, openStorage, trace } = dependencies;
  const startedMs = clock.monotonic();
  const storage = runStorage(openStorage(location.directory));
  const outside = openStorage(location.outside);
  const id = sortableId(clock, random);
  const backend = options.backendOf(job);
  // Leads before planning: a cleaning would remove the tasks of a retry without a plan.
  const coordinator = await Coordinator.lead({ storage, clock, processes, id, job, trace });
  try {
    const places = { storage, outside, openStorage };
    await publishNewestSeal(places, await readPlan(storage), "sizes");
    const leading = { ...places, worker: id };
    const found = await planRetry(leading, dependencies, request, options.onEvent, findTasks);
    if (!found) return undefined;
    const context = runContext(location, found.plan, dependencies, id, storage);
    const opened = { context, location, job: found.plan.job };
    // A call that goes on with the retry finds its job here, wherever this one ends.
    await coordinator.present(opened.job, opened.job.model);
    const present = await withSharedLimits(opened.job, found.plan.rows, backend, options.signal);
    await coordinator.present(present.job, opened.job.model);
    const seal = (engine: Manifest["engine"]) =>
      sealRetry(context, found.base, {
        engine,
        prices: pricesOf(found.plan.job),
        assertLeads: () => coordinator.assertLeads(),
      });
    const seconds = () => (clock.monotonic() - startedMs) / 1000;
    const { engineContext } = dependencies;
    const totalRows = rowsAfter(found);
    const run = { ...opened, ...present, backend, totalRows, seal, engineContext };
    return withHint(await runAndSeal(run, coordinator, options, seconds), storage, request);
  } finally {
    await coordinator.end();
  }
}

/** Corrected rows are not at their planned places: a retry must be told to look for them. */
function withHint(result: RunResult, storage: Storage, { reread, where }: RetryRequest): RunResult {
  const { error } = result;
  if (error?.code !== "INPUT_CHANGED" || reread || where === "appended") return result;
  const { message, place, cause } = error;
  const hint = `if failed rows were corrected there: sluice retry ${runWords(storage)} --reread`;
  return { ...result, error: wordedError("INPUT_CHANGED", message, { ...place, cause, hint }) };
}

/** Rows of the run once the retry is sealed. */
function rowsAfter({ plan, base }: RetryPlan): number {
  return plan.whole?.rows ?? base.rows.total;
}
