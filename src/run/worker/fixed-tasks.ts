import type { Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { eachIndex, parseIndexSet } from "../../foundation/index-set.ts";
import type { Logger } from "../../foundation/logger.ts";
import { parseShare, shareOf } from "../../foundation/shares.ts";
import { openBudget } from "../bill/budget.ts";
import { watchCancel } from "../coordinate/coordinator.ts";
import { runStorage } from "../directory/run-storage.ts";
import { type DispatchEnd, Dispatcher, type WorkerHandle } from "../dispatch/dispatch.ts";
import { FailedRows } from "../dispatch/failed-rows.ts";
import type { JobSpec } from "../job/schema.ts";
import { type Plan, readPlan, TaskTable } from "../plan/plan.ts";
import { assertBegunSo } from "../plan/probe.ts";
import { finishReplacement } from "../plan/replace-run.ts";
import { failedRowsAllowed, withinBudget } from "../run-job.ts";
import { committedTasks } from "../seal/commits.ts";
import { sealIfComplete } from "../seal/seal-as-leader.ts";
import { EventStream } from "../status/event-stream.ts";
import type { RunEvent } from "../status/events.ts";
import { type ServeOptions, workerInside } from "./serve.ts";

/** Least time between two counts of the failed rows of other workers. */
const budgetLookIntervalMs = 10_000;

/** Starts the worker for the tasks; `index` is its number on the machine, from 0. */
export type StartFixedWorker = (
  plan: Plan,
  directory: string,
  logger: Logger,
  index: number,
) => Promise<WorkerHandle>;

/** The tasks: a set such as `1,3-5`, or one of several balanced parts such as `3/16`. */
export interface FixedTasks {
  tasks?: string;
  share?: string;
}

export interface FixedTasksOptions extends FixedTasks {
  onEvent(event: RunEvent): void;
  /** Gets the log lines of the worker. */
  logger: Logger;
  /** Abort it to stop cleanly; a SluiceError as its reason is the cause. */
  signal: AbortSignal;
  /** Called before the first row, if there is one; its errors end the work. */
  check?(job: JobSpec): Promise<void>;
  /** Default: a worker inside this process. */
  startWorker?: StartFixedWorker | undefined;
}

/**
 * Processes a fixed set of tasks and ends, for schedulers that know nothing of tasks. The worker
 * that finishes the last task of the run seals it.
 *
 * @returns false if the run is sealed here with too many failed rows.
 * @throws SluiceError the cause of a stop; `UNSUPPORTED` for a store without conditional writes.
 */
export async function workOnTasks(
  serving: Omit<ServeOptions, "channel">,
  options: FixedTasksOptions,
): Promise<boolean> {
  const { location, generation, dependencies } = serving;
  const { clock } = dependencies;
  const storage = runStorage(dependencies.openStorage(location.directory));
  assertCreatesOnce(storage);
  const plan = await readPlan(storage, generation);
  assertBegunSo(storage, plan.job);
  await finishReplacement(dependencies, location, storage);
  const own = await ownTasks(storage, plan, [...tasksOf(options, plan)]);
  const events = await openEvents(serving, storage, options);
  const { add: onEvent } = events;
  const stop = new AbortController();
  const cancel = () => stop.abort(new SluiceError("RUN_CANCELED"));
  const opened = { context: { storage, plan, clock }, job: plan.job, committed: own.committed };
  const budget = await openBudget(opened, onEvent);
  const cancelWatch = await watchCancel(storage, clock, cancel);
  const signals = [stop.signal, options.signal, ...(budget ? [budget.signal] : [])];
  try {
    const { runId } = plan;
    onEvent({ type: "run-start", runId, output: location.directory, ...own.counts, generation });
    if (own.tasks.length > 0) await options.check?.(plan.job);
    budget?.start();
    const end = await dispatch(serving, { storage, plan, own }, budget, {
      ...options,
      onEvent,
      signal: AbortSignal.any(signals),
    });
    if (end.error) throw end.error;
    const sealed = await sealIfComplete(serving, onEvent);
    return !sealed || withinBudget(plan.job, plan, sealed.rows.failed);
  } catch (error) {
    onEvent({ type: "run-stop", error: asSluiceError(error).toJSON() });
    throw error;
  } finally {
    // A remaining timer would keep this process alive.
    cancelWatch();
    budget?.close();
    await events.close();
  }
}

/** Each static worker writes its events to its own file. */
function openEvents(
  { dependencies }: Omit<ServeOptions, "channel">,
  storage: Storage,
  { onEvent, logger }: FixedTasksOptions,
): Promise<EventStream> {
  const { clock, random } = dependencies;
  const writer = sortableId(clock, random);
  return EventStream.open({ storage, clock, logger, writer, onEvent });
}

async function dispatch(
  serving: Omit<ServeOptions, "channel">,
  { storage, plan, own }: { storage: Storage; plan: Plan; own: OwnTasks },
  budget: Awaited<ReturnType<typeof openBudget>>,
  options: FixedTasksOptions,
): Promise<DispatchEnd> {
  const { location, dependencies } = serving;
  const { clock, random } = dependencies;
  const { onEvent, logger, signal, startWorker = async () => workerInside(serving) } = options;
  const maxFailedRows = failedRowsAllowed(plan.job, plan);
  const failedRows = new FailedRows(storage, plan, (it) => budget?.note(it.task, it.usage));
  const looksElsewhere = maxFailedRows !== undefined || budget !== undefined;
  const dispatcher = new Dispatcher({
    ...{ tasks: own.tasks, rowsOf: own.rowsOf, workers: 1, clock, random, signal },
    startWorker: () => startWorker(plan, location.directory, logger, indexOf(options)),
    maxSilenceMs: plan.job.workers.maxSilenceMs,
    maxTaskRetries: plan.job.tasks.maxRetries,
    ...(maxFailedRows === undefined ? {} : { maxFailedRows }),
    failedBefore: maxFailedRows === undefined ? 0 : await failedRows.fresh(),
    onEvent: (event) => {
      onEvent(event);
      budget?.hear(event);
      if (event.type === "task-end" && looksElsewhere) lookElsewhere();
    },
  });
  const lookElsewhere = atMostEvery(budgetLookIntervalMs, clock, async () =>
    dispatcher.addFailedElsewhere(await failedRows.fresh(new Set(own.tasks))),
  );
  return await dispatcher.run();
}

/** Parts of one run on the same machine take its GPUs in turn. */
const indexOf = ({ share }: FixedTasks) => Number.parseInt(share ?? "0", 10);

function assertCreatesOnce({ createsOnce }: Storage): void {
  if (createsOnce !== false) return;
  throw new SluiceError("UNSUPPORTED", "--tasks and --share with store.conditional: none", {
    hint: "a store without conditional writes needs one coordinator: sluice run",
  });
}

interface OwnTasks {
  /** Tasks without a commit. */
  tasks: number[];
  rowsOf(task: number): number;
  /** All tasks of the run with a commit. */
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

/** Runs an action at intervals, when called; never twice at once. */
function atMostEvery(intervalMs: number, clock: Clock, action: () => Promise<void>): () => void {
  let lastMs = clock.monotonic();
  let isBusy = false;
  return () => {
    if (isBusy || clock.monotonic() - lastMs < intervalMs) return;
    isBusy = true;
    // A failed read is repeated next time; the seal counts everything.
    void action()
      .catch(() => {})
      .finally(() => {
        isBusy = false;
        lastMs = clock.monotonic();
      });
  };
}

function* tasksOf(options: FixedTasks, plan: Plan): Generator<number> {
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
