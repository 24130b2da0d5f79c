import { channelPair } from "../foundation/channel.ts";
import { exitCodes, SluiceError } from "../foundation/errors.ts";
import { eachIndex, parseIndexSet, shareOf } from "../foundation/index-set.ts";
import { watchCancel } from "../run/coordinate/coordinator.ts";
import { Dispatcher, type WorkerHandle } from "../run/dispatch.ts";
import { type Plan, readPlan } from "../run/plan.ts";
import { failedRowsAllowed, withinBudget } from "../run/run-job.ts";
import { committedTasks } from "../run/seal/commits.ts";
import type { FromWorker, ToWorker } from "../run/worker/protocol.ts";
import { type ServeOptions, serveWorker } from "../run/worker/serve.ts";
import type { CliIo } from "./io.ts";
import { progressMode, showProgress } from "./progress.ts";
import { sealIfComplete } from "./seal-run.ts";

/**
 * Runs a fixed set of tasks in this process and leaves: what a scheduler that knows nothing of
 * tasks starts. The worker that finishes the last task of the run seals it.
 */
export async function workOnTasks(
  serving: Omit<ServeOptions, "channel">,
  options: { tasks?: string; share?: string },
  io: CliIo,
): Promise<void> {
  const { location, generation, dependencies } = serving;
  const storage = dependencies.openStorage(location.directory);
  const plan = await readPlan(storage, generation);
  const committed = await committedTasks(storage, plan);
  const own = [...tasksOf(options, plan)];
  const tasks = own.filter((task) => !committed.has(task));
  const mode = progressMode({}, io.isTerminal);
  const { stderr: stream, clock } = io;
  const progress = showProgress({ mode, stream, columns: io.columns, clock });
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort(new SluiceError("RUN_CANCELED")));
  const cancelWatch = await watchCancel(storage, clock, () => {
    stop.abort(new SluiceError("RUN_CANCELED"));
  });
  progress.onEvent({
    type: "run-start",
    runId: plan.runId,
    output: location.directory,
    tasks: own.length,
    rows: own.length * plan.input.rowsPerTask,
    resumedTasks: own.length - tasks.length,
    resumedRows: (own.length - tasks.length) * plan.input.rowsPerTask,
  });
  const maxFailedRows = failedRowsAllowed(plan.job, plan);
  try {
    const end = await new Dispatcher({
      tasks,
      rowsOf: () => plan.input.rowsPerTask,
      workers: 1,
      startWorker: async () => inThisProcess(serving),
      clock,
      random: io.random,
      maxTaskRetries: plan.job.tasks.maxRetries,
      ...(maxFailedRows === undefined ? {} : { maxFailedRows }),
      failedBefore: 0,
      onEvent: progress.onEvent,
      signal: stop.signal,
    }).run();
    if (end.error) throw end.error;
    const sealed = await sealIfComplete(serving, io, progress);
    if (sealed && !withinBudget(plan.job, plan, sealed.rows.failed)) {
      io.setExitCode(exitCodes.failedRows);
    }
  } finally {
    // A timer that is left would keep this process alive.
    ignore();
    cancelWatch();
    progress.close();
  }
}

function* tasksOf(options: { tasks?: string; share?: string }, plan: Plan): Generator<number> {
  if (options.tasks !== undefined) {
    for (const task of eachIndex(parseIndexSet(options.tasks))) {
      if (task >= plan.tasks.count) {
        throw new SluiceError("USAGE", `--tasks names task ${task}; there are ${plan.tasks.count}`);
      }
      yield task;
    }
    return;
  }
  const match = /^(\d+)\/(\d+)$/.exec(options.share ?? "");
  const [index, count] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || index >= count) {
    throw new SluiceError("USAGE", `--share ${options.share} is no part such as 3/16 (from 0/16)`);
  }
  const share = shareOf(plan.tasks.count, index, count);
  if (share) yield* eachIndex([share]);
}

/** A worker inside this process, at the end of a channel, as the dispatcher expects one. */
function inThisProcess(serving: Omit<ServeOptions, "channel">): WorkerHandle {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const ended = serveWorker({ ...serving, channel: far }).then(() => "it left");
  return { channel: near, kill: () => near.close(), ended };
}
