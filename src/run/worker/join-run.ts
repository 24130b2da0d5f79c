import type { Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { eachIndex, type IndexRange, indexesIn, rangesOf } from "../../foundation/index-set.ts";
import type { Logger } from "../../foundation/logger.ts";
import { parseShare, shareOf } from "../../foundation/shares.ts";
import { committedTasks, FailedRows } from "../attempt/commits.ts";
import { openBudget } from "../bill/budget.ts";
import { Claims } from "../claims/claims.ts";
import { TaskSource } from "../claims/task-source.ts";
import { watchCancel } from "../coordinate/coordinator.ts";
import { runStorage } from "../directory/run-storage.ts";
import { type DispatchEnd, Dispatcher, type WorkerHandle } from "../dispatch/dispatch.ts";
import { taskLimitsOf } from "../dispatch/dispatcher-of.ts";
import type { JobSpec } from "../job/schema.ts";
import { type Plan, plannedRows, TaskTable } from "../plan/plan.ts";
import { assertBegunSo } from "../plan/probe.ts";
import { finishReplacement } from "../plan/replace-run.ts";
import { sealIfComplete } from "../seal/seal-as-leader.ts";
import { EventStream } from "../status/event-stream.ts";
import type { RunEvent } from "../status/events.ts";
import { areFailuresAllowed, failedRowsAllowed } from "../status/run-result.ts";
import { presentRun, type RunWorkerOptions, workerInside } from "./run-worker.ts";

/** Least time between two counts of the failed rows of other workers. */
const elsewhereLookIntervalMs = 10_000;

/** Starts the worker for the tasks; `index` is its number on the machine, from 0. */
export type StartJoinedWorker = (
  plan: Plan,
  directory: string,
  logger: Logger,
  index: number,
) => Promise<WorkerHandle>;

/** Which tasks a joining worker processes; by default, whatever is open. */
export interface JoinedTasks {
  /** These alone, such as `1,3-5`. */
  tasks?: string;
  /** One of several balanced parts such as `3/16`; then it helps with those of others. */
  share?: string;
  /** False: nothing but its share. Default: true, except with `tasks`. */
  help?: boolean;
}

export interface JoinOptions extends JoinedTasks {
  onEvent(event: RunEvent): void;
  /** Gets the log lines of the worker. */
  logger: Logger;
  /** Abort it to stop cleanly; a SluiceError as its reason is the cause. */
  signal: AbortSignal;
  /** Called before the first row, if there is one; its errors end the work. */
  check?(job: JobSpec): Promise<void>;
  /** Default: a worker inside this process. */
  startWorker?: StartJoinedWorker | undefined;
}

/**
 * Joins a run and ends with it, for schedulers that start processes and know nothing of tasks. The
 * worker processes its own tasks first. Then it helps: it takes tasks of others that nobody works
 * on, and waits while others work on the last ones. The worker that ends last seals the run.
 *
 * @returns false if the run is sealed here with too many failed rows.
 * @throws SluiceError the cause of a stop; `UNSUPPORTED` for a store without conditional writes.
 */
export async function joinRun(
  serving: Omit<RunWorkerOptions, "channel">,
  options: JoinOptions,
): Promise<boolean> {
  const { location, generation, dependencies } = serving;
  const { clock } = dependencies;
  const storage = runStorage(dependencies.openStorage(location.directory));
  assertCreatesOnce(storage);
  const { plan } = await presentRun(storage, generation);
  assertBegunSo(storage, plan.job);
  await finishReplacement(dependencies, location, storage);
  const own = await ownTasks(storage, plan, [...tasksOf(options, plan)]);
  const id = sortableId(clock, dependencies.random);
  const { processes } = dependencies;
  const claims = new Claims({ storage, clock, processes, of: plan, owner: id });
  // Each joining worker writes its events to its own file.
  const sink = { storage, clock, logger: options.logger, writer: id, onEvent: options.onEvent };
  const events = await EventStream.open(sink);
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
    if (own.committed.size < plan.tasks.count) await options.check?.(plan.job);
    await claims.begin();
    try {
      budget?.start();
      const end = await dispatch(serving, { storage, plan, own, claims }, budget, {
        ...options,
        onEvent,
        signal: AbortSignal.any(signals),
      });
      if (end.error) throw end.error;
      // Whoever helps ends when all tasks are committed, its own or not.
      const sealed = await sealIfComplete(serving, storage, onEvent, doesHelp(options));
      return !sealed || areFailuresAllowed(plan.job, plan, sealed.rows.failed);
    } finally {
      // Until here, readers see that somebody is left who seals a complete run.
      await claims.end();
    }
  } catch (error) {
    onEvent({ type: "run-stop", error: asSluiceError(error).toJSON() });
    throw error;
  } finally {
    // A remaining timer would keep this process alive.
    cancelWatch();
    await events.close();
  }
}

interface JoinedRun {
  storage: Storage;
  plan: Plan;
  own: OwnTasks;
  claims: Claims;
}

async function dispatch(
  serving: Omit<RunWorkerOptions, "channel">,
  { storage, plan, own, claims }: JoinedRun,
  budget: Awaited<ReturnType<typeof openBudget>>,
  options: JoinOptions,
): Promise<DispatchEnd> {
  const { location, dependencies } = serving;
  const { clock, random } = dependencies;
  const { onEvent, logger, signal, startWorker = async () => workerInside(serving) } = options;
  const maxFailedRows = failedRowsAllowed(plan.job, plan);
  const failedRows = new FailedRows(storage, plan, (it) => budget?.note(it.task, it.usage));
  const looksElsewhere = maxFailedRows !== undefined || budget !== undefined;
  const taken = new Set<number>();
  const rows = new RowCounts(storage, plan);
  const end = new AbortController();
  const take = takerOf(options, { storage, plan, own, claims }, dependencies, end.signal);
  const ownTasks = new Set(own.tasks);
  let dispatcher: Dispatcher | undefined;
  const takeMore = async () => {
    const tasks = await take();
    for (const task of tasks) taken.add(task);
    await rows.read(tasks);
    // Another worker may have left them because too many rows have failed.
    const isHelping = tasks.some((task) => !ownTasks.has(task));
    if (isHelping && looksElsewhere) {
      dispatcher?.addFailedElsewhere(await failedRows.fresh(taken));
    }
    return tasks;
  };
  const stopTaking = () => end.abort(signal.reason);
  signal.addEventListener("abort", stopTaking);
  try {
    const begun = new Dispatcher({
      tasks: signal.aborted ? own.tasks : await takeMore(),
      rowsOf: (task) => rows.of(task),
      ...{ takeMore, workers: 1, clock, random, signal },
      taskLimits: taskLimitsOf(plan.job.model),
      startWorker: () => startWorker(plan, location.directory, logger, indexOf(options)),
      maxSilenceMs: plan.job.workers.maxSilenceMs,
      maxTaskRetries: plan.job.tasks.maxRetries,
      maxFailedRows,
      failedBefore: maxFailedRows === undefined ? 0 : await failedRows.fresh(),
      onEvent: (event) => {
        onEvent(event);
        budget?.hear(event);
        if (event.type === "task-end" && looksElsewhere) lookElsewhere();
      },
    });
    const lookElsewhere = atMostEvery(elsewhereLookIntervalMs, clock, async () =>
      begun.addFailedElsewhere(await failedRows.fresh(taken)),
    );
    dispatcher = begun;
    return await begun.run();
  } finally {
    budget?.close();
    signal.removeEventListener("abort", stopTaking);
    end.abort(new SluiceError("RUN_CANCELED"));
    await rows.close();
  }
}

/** Gives the tasks to process next; none at the end. */
function takerOf(
  joined: JoinedTasks,
  { storage, plan, own, claims }: JoinedRun,
  { clock, random }: Pick<RunWorkerOptions["dependencies"], "clock" | "random">,
  signal: AbortSignal,
): () => Promise<number[]> {
  if (doesHelp(joined)) {
    const { share } = joined;
    const { committed } = own;
    const total = plan.tasks.count;
    const part = share === undefined ? undefined : rangeOf(share, plan);
    const source = new TaskSource({
      ...{ storage, clock, random, claims, of: plan, total, committed, signal },
      share: part,
    });
    return () => source.take();
  }
  let left: readonly number[] | undefined = own.tasks;
  return async () => {
    const all = [...(left ?? [])];
    left = undefined;
    // So that helpers leave them alone. Whoever claimed some is not waited for: the commit decides.
    for (const range of rangesOf(all)) await claims.claim(range);
    return all;
  };
}

const doesHelp = ({ tasks, help = tasks === undefined }: JoinedTasks) => help;

/** Planned rows of the tasks at hand. */
class RowCounts {
  readonly #table: TaskTable;
  readonly #rows = new Map<number, number>();

  constructor(storage: Storage, plan: Plan) {
    this.#table = new TaskTable(storage, plan);
  }

  async read(tasks: readonly number[]): Promise<void> {
    for (const task of tasks) {
      this.#rows.set(task, plannedRows(await this.#table.task(task)));
    }
  }

  of(task: number): number {
    return this.#rows.get(task) ?? 0;
  }

  close(): Promise<void> {
    return this.#table.close();
  }
}

/** Parts of one run on the same machine take its GPUs in turn. */
const indexOf = ({ share }: JoinedTasks) => Number.parseInt(share ?? "0", 10);

function assertCreatesOnce({ createsOnce }: Storage): void {
  if (createsOnce !== false) return;
  throw new SluiceError("UNSUPPORTED", "a worker that joins with store.conditional: none", {
    hint: "a store without conditional writes needs one coordinator: sluice run",
  });
}

interface OwnTasks {
  tasks: number[];
  /** All tasks of the run with a commit. */
  committed: ReadonlySet<number>;
  counts: { tasks: number; rows: number; resumedTasks: number; resumedRows: number };
}

async function ownTasks(storage: Storage, plan: Plan, own: readonly number[]): Promise<OwnTasks> {
  const committed = await committedTasks(storage, plan);
  const table = new TaskTable(storage, plan);
  const open: number[] = [];
  const counts = { tasks: own.length, rows: 0, resumedTasks: 0, resumedRows: 0 };
  try {
    for (const task of own) {
      const rows = plannedRows(await table.task(task));
      counts.rows += rows;
      if (committed.has(task)) counts.resumedTasks++;
      if (committed.has(task)) counts.resumedRows += rows;
      else open.push(task);
    }
  } finally {
    await table.close();
  }
  return { tasks: open, committed, counts };
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

function* tasksOf({ tasks, share }: JoinedTasks, plan: Plan): Generator<number> {
  const all = { first: 0, last: plan.tasks.count - 1 };
  if (tasks === undefined) {
    const own = share === undefined ? all : rangeOf(share, plan);
    if (own && own.last >= own.first) yield* eachIndex([own]);
    return;
  }
  for (const task of indexesIn(tasks)) {
    if (task >= plan.tasks.count) {
      throw new SluiceError("USAGE", `--tasks names task ${task}; there are ${plan.tasks.count}`);
    }
    yield task;
  }
}

function rangeOf(share: string, plan: Plan): IndexRange | undefined {
  const { index, takers } = parseShare(share);
  return shareOf(plan.tasks.count, index, takers);
}
