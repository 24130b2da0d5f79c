import { workerEnvironment } from "../backends/open.ts";
import type { Storage } from "../data/storage/storage.ts";
import { checkEngine } from "../engines/prepare-engine.ts";
import { channelPair } from "../foundation/channel.ts";
import type { Clock } from "../foundation/clock.ts";
import { exitCodes } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import { eachIndex, parseIndexSet } from "../foundation/index-set.ts";
import { limits } from "../foundation/limits.ts";
import type { Logger } from "../foundation/logger.ts";
import { parseShare, shareOf } from "../foundation/shares.ts";
import { openBudget } from "../run/bill/open-budget.ts";
import { watchCancel } from "../run/coordinate/coordinator.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { Dispatcher, type WorkerHandle } from "../run/dispatch/dispatch.ts";
import { FailedRows } from "../run/dispatch/failed-rows.ts";
import { type Plan, readPlan, TaskTable } from "../run/plan/plan.ts";
import { assertBegunSo } from "../run/plan/probe.ts";
import { finishReplacement } from "../run/plan/replace-run.ts";
import { failedRowsAllowed, withinBudget } from "../run/run-job.ts";
import { committedTasks } from "../run/seal/commits.ts";
import type { FromWorker, ToWorker } from "../run/worker/protocol.ts";
import { type ServeOptions, serveWorker } from "../run/worker/serve.ts";
import { openProgress } from "../terminal/progress.ts";
import type { CliIo } from "./io.ts";
import { sealIfComplete } from "./seal-run.ts";

/**
 * Starts the worker that a static worker hands its tasks to; `slot` is which of those on a machine
 * it may be, from 0.
 */
export type StartStaticWorker = (
  plan: Plan,
  directory: string,
  logger: Logger,
  slot: number,
) => Promise<WorkerHandle>;

/**
 * Runs a fixed set of tasks and leaves: what a scheduler that knows nothing of tasks starts. Who
 * finishes the last task of the run seals it.
 *
 * @param startWorker default: a worker inside this process.
 */
export async function workOnTasks(
  serving: Omit<ServeOptions, "channel">,
  options: { tasks?: string; share?: string },
  io: CliIo,
  startWorker: StartStaticWorker = async () => inThisProcess(serving),
): Promise<void> {
  const { location, generation, dependencies } = serving;
  const storage = runStorage(dependencies.openStorage(location.directory));
  assertCreatesOnce(storage);
  const plan = await readPlan(storage, generation);
  assertBegunSo(storage, plan.job);
  await finishReplacement(dependencies, location, storage);
  const own = await ownTasks(storage, plan, [...tasksOf(options, plan)]);
  const { clock } = io;
  const progress = openProgress({}, io);
  const stop = new AbortController();
  const cancel = () => stop.abort(new SluiceError("RUN_CANCELED"));
  const ignore = io.onSignal(cancel);
  const cancelWatch = await watchCancel(storage, clock, cancel);
  progress.onEvent({
    type: "run-start",
    runId: plan.runId,
    output: location.directory,
    ...own.counts,
  });
  const maxFailedRows = failedRowsAllowed(plan.job, plan);
  const opened = { context: { storage, plan, clock }, job: plan.job, committed: own.committed };
  const budget = await openBudget(opened, progress.onEvent);
  const failedRows = new FailedRows(storage, plan, (it) => budget?.note(it.task, it.usage));
  const looksElsewhere = maxFailedRows !== undefined || budget !== undefined;
  try {
    if (own.tasks.length > 0) await assertEngineReady(plan, serving, stop.signal);
    budget?.start();
    const dispatcher = new Dispatcher({
      ...{ tasks: own.tasks, rowsOf: own.rowsOf, workers: 1 },
      startWorker: () => startWorker(plan, location.directory, progress.logger, slotOf(options)),
      maxSilenceMs: plan.job.workers.maxSilenceMs,
      clock,
      random: io.random,
      maxTaskRetries: plan.job.tasks.maxRetries,
      ...(maxFailedRows === undefined ? {} : { maxFailedRows }),
      failedBefore: maxFailedRows === undefined ? 0 : await failedRows.fresh(),
      onEvent: (event) => {
        progress.onEvent(event);
        budget?.hear(event);
        if (event.type === "task-end" && looksElsewhere) lookElsewhere();
      },
      signal: AbortSignal.any([stop.signal, ...(budget ? [budget.signal] : [])]),
    });
    const lookElsewhere = atMostEvery(limits.budgetLookIntervalMs, clock, async () =>
      dispatcher.addFailedElsewhere(await failedRows.fresh(new Set(own.tasks))),
    );
    const end = await dispatcher.run();
    if (end.error) throw end.error;
    const sealed = await sealIfComplete(serving, io, progress);
    if (sealed && !withinBudget(plan.job, plan, sealed.rows.failed)) {
      io.setExitCode(exitCodes.failedRows);
    }
  } finally {
    // A timer that is left would keep this process alive.
    ignore();
    cancelWatch();
    budget?.close();
    progress.close();
  }
}

function assertCreatesOnce({ createsOnce }: Storage): void {
  if (createsOnce !== false) return;
  throw new SluiceError("UNSUPPORTED", "--tasks and --share with store.conditional: none", {
    hint: "a store without conditional writes needs one coordinator: sluice run",
  });
}

/** A part that was started alone ends at once where its engine, model or endpoint is not there. */
async function assertEngineReady(
  { job }: Plan,
  { engineContext }: Pick<ServeOptions, "engineContext">,
  signal: AbortSignal,
): Promise<void> {
  const environment = workerEnvironment(engineContext.environment, job.env);
  await checkEngine(job.model, { ...engineContext, environment, signal }, { install: false });
}

/** Parts of one run that were started on one machine take its GPUs in turn. */
const slotOf = ({ share }: { share?: string }) => Number.parseInt(share ?? "0", 10);

interface OwnTasks {
  /** Those without a commit. */
  tasks: number[];
  rowsOf(task: number): number;
  /** All tasks of the run that have one. */
  committed: ReadonlySet<number>;
  counts: { tasks: number; rows: number; resumedTasks: number; resumedRows: number };
}

async function ownTasks(storage: Storage, plan: Plan, own: readonly number[]): Promise<OwnTasks> {
  const committed = await committedTasks(storage, plan);
  const table = new TaskTable(storage, plan);
  const open = new Map<number, number>();
  const counts = { tasks: own.length, rows: 0, resumedTasks: 0, resumedRows: 0 };
  try {
    for (const task of own) {
      const { rows: all, onlyRows } = await table.task(task);
      const rows = onlyRows ?? all;
      counts.rows += rows;
      if (committed.has(task)) counts.resumedTasks++;
      if (committed.has(task)) counts.resumedRows += rows;
      else open.set(task, rows);
    }
  } finally {
    await table.close();
  }
  return { tasks: [...open.keys()], rowsOf: (task) => open.get(task) ?? 0, committed, counts };
}

/** Does something now and then, when it is called; never twice at once. */
function atMostEvery(intervalMs: number, clock: Clock, action: () => Promise<void>): () => void {
  let lastMs = clock.monotonic();
  let isBusy = false;
  return () => {
    if (isBusy || clock.monotonic() - lastMs < intervalMs) return;
    isBusy = true;
    // What could not be read now is read the next time; the seal counts all of it.
    void action()
      .catch(() => {})
      .finally(() => {
        isBusy = false;
        lastMs = clock.monotonic();
      });
  };
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
  const { index, takers } = parseShare(options.share ?? "");
  const share = shareOf(plan.tasks.count, index, takers);
  if (share) yield* eachIndex([share]);
}

/** A worker inside this process, at the end of a channel, as the dispatcher expects one. */
function inThisProcess(serving: Omit<ServeOptions, "channel">): WorkerHandle {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const ended = serveWorker({ ...serving, channel: far }).then(() => "it left");
  return { channel: near, kill: () => near.close(), ended };
}
