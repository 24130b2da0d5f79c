import { describeEngine } from "../../engines/registry.ts";
import type { JobSpec } from "../job/schema.ts";
import type { BackendRun } from "./backend.ts";
import { Dispatcher, type DispatchOptions } from "./dispatch.ts";
import type { TaskLimits } from "./dispatched-worker.ts";

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
  const { tasks, rowsOf, workers, maxFailedRows, failedBefore, onEvent, signal, job } = run;
  const { clock, random } = run.context;
  const { readyTimeoutMs } = describeEngine(job.model);
  return new Dispatcher({
    ...{ tasks, rowsOf, workers, maxFailedRows, failedBefore, onEvent, signal },
    ...{ startWorker, clock, random, ...options },
    readyTimeoutMs: readyTimeoutMs?.(job.model),
    taskLimits: taskLimitsOf(job.model),
    maxSilenceMs: job.workers.maxSilenceMs,
    maxTaskRetries: job.tasks.maxRetries,
  });
}

export function taskLimitsOf(model: JobSpec["model"]): TaskLimits {
  const { takesAhead, maxOpenTasks } = describeEngine(model);
  return { takesAhead, maxOpenTasks: maxOpenTasks?.(model) };
}
