import { describeEngine } from "../../engines/registry.ts";
import type { BackendRun } from "./backend.ts";
import { Dispatcher, type DispatchOptions } from "./dispatch.ts";

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
  const { readyTimeoutMs, takesAhead } = describeEngine(job.model);
  return new Dispatcher({
    tasks: run.tasks,
    rowsOf: run.rowsOf,
    workers: run.workers,
    startWorker,
    ...options,
    readyTimeoutMs: readyTimeoutMs?.(job.model),
    takesAhead,
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
