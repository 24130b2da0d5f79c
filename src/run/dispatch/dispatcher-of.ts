import { describeEngine } from "../../engines/registry.ts";
import type { JobSpec } from "../job/schema.ts";
import type { BackendRun } from "./backend.ts";
import { Dispatcher, type DispatchOptions } from "./dispatch.ts";
import type { HeldTasks } from "./dispatched-worker.ts";

/**
 * The dispatcher of a run, for a backend that starts workers one by one.
 *
 * @example
 * return await dispatcherOf(run, (index) => startOn(places[index], run)).run();
 */
export function dispatcherOf(
  run: BackendRun,
  startWorker: DispatchOptions["startWorker"],
  options: Pick<DispatchOptions, "releasesIdle"> = {},
): Dispatcher {
  const { context, job } = run;
  const { readyTimeoutMs } = describeEngine(job.model);
  return new Dispatcher({
    tasks: run.tasks,
    rowsOf: run.rowsOf,
    workers: run.workers,
    startWorker,
    ...options,
    readyTimeoutMs: readyTimeoutMs?.(job.model),
    held: heldTasks(job.model),
    maxSilenceMs: job.workers.maxSilenceMs,
    clock: context.clock,
    random: context.random,
    maxTaskRetries: job.tasks.maxRetries,
    ...(run.maxFailedRows === undefined ? {} : { maxFailedRows: run.maxFailedRows }),
    failedBefore: run.failedBefore,
    onEvent: run.onEvent,
    signal: run.signal,
  });
}

/** How many tasks a worker with this model holds. */
export function heldTasks(model: JobSpec["model"]): HeldTasks {
  const { takesAhead, maxOpenTasks } = describeEngine(model);
  return { takesAhead, maxOpenTasks: maxOpenTasks?.(model) };
}
