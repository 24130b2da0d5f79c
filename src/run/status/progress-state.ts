import type { BatchState } from "../../engines/batch-records.ts";
import { addUsage, noUsage, type Usage, usageSince } from "../../foundation/inference.ts";
import { addErrors, type ErrorCounts } from "../attempt/commit.ts";
import type { Budget, Spending } from "../bill/costs.ts";
import type { BatchSum, RunEvent, RunProgress } from "./events.ts";

interface OpenTask {
  worker: string;
  rows: number;
  /** Rows that were done before this attempt, and their cost. */
  resumed: number;
  resumedUsage: Usage;
  done: number;
  failed: number;
  cut: number;
  errors: ErrorCounts;
  inFlight: number;
  usage: Usage;
  /** Its batches at a provider. */
  batches?: readonly BatchState[] | undefined;
}

interface WorkerLine {
  /** Short, for people: its place in the order of starts, from 1. */
  number: number;
  pid: number;
  capacity: number;
  /** Rows that this worker finished in this call, in ended tasks. */
  finished: number;
}

/**
 * All that progress shows: each event gives the next. Its maps of tasks are handed over to that
 * one, for thousands of tasks may be open: a state that gave a next one is not read again.
 */
export interface ProgressState {
  /** Monotonic milliseconds of the first event. */
  readonly startedAt: number;
  readonly planned: { rows: number; bytes: number; totalBytes: number } | undefined;
  readonly run: { id: string; output: string; rows: number; tasks: number } | undefined;
  /** Rows and tasks that earlier calls finished, including partly done tasks. */
  readonly resumedRows: number;
  readonly resumedTasks: number;
  readonly ended: {
    tasks: number;
    rows: number;
    failed: number;
    cut: number;
    errors: ErrorCounts;
    usage: Usage;
  };
  readonly open: Map<number, OpenTask>;
  readonly workers: ReadonlyMap<string, WorkerLine>;
  /** Workers that started in this call, including those that ended. */
  readonly startedWorkers: number;
  /** The state of open tasks when they first began in this call. */
  readonly begun: Map<number, Pick<OpenTask, "resumed" | "resumedUsage">>;
  /** The step before the first row, and how much of it is done. */
  readonly step?: { text: string; share?: number | undefined };
  /** The last report of the spent budget, over all calls. */
  readonly budget?: { spent: Spending; budget: Budget };
  readonly sealed: boolean;
  /** Done rows at earlier times, oldest first: the present rate follows from them. */
  readonly samples: readonly { at: number; rows: number; usage: Usage }[];
}

/** A task without a reported start. */
const unknownTask = { rows: 0, resumed: 0, resumedUsage: noUsage };

/** The rate is that of the last half minute. */
const rateWindowMs = 30_000;
const sampleIntervalMs = 500;

/** The initial state; `now` is monotonic milliseconds. */
export function initialProgress(now: number): ProgressState {
  return {
    startedAt: now,
    planned: undefined,
    run: undefined,
    resumedRows: 0,
    resumedTasks: 0,
    ended: { tasks: 0, rows: 0, failed: 0, cut: 0, errors: {}, usage: noUsage },
    open: new Map(),
    workers: new Map(),
    startedWorkers: 0,
    begun: new Map(),
    sealed: false,
    samples: [],
  };
}

/** The state after an event at `now` (monotonic milliseconds). */
export function reduceProgress(state: ProgressState, event: RunEvent, now: number): ProgressState {
  return sampled(reduce(state, event), now);
}

function reduce(state: ProgressState, event: RunEvent): ProgressState {
  switch (event.type) {
    case "plan-progress":
      return { ...state, planned: event };
    case "run-start": {
      const { runId, output, rows, tasks, resumedRows, resumedTasks } = event;
      return { ...state, run: { id: runId, output, rows, tasks }, resumedRows, resumedTasks };
    }
    case "worker-start": {
      const { pid, capacity } = event;
      const number = state.startedWorkers + 1;
      const started = { ...state, startedWorkers: number };
      return withWorker(started, event.worker, { number, pid, capacity, finished: 0 });
    }
    case "worker-end":
      return withoutWorker(state, event.worker);
    case "task-start":
    case "task-progress":
      return withTask(state, event);
    case "task-end":
      return withoutTask(state, event);
    case "budget-progress":
      return { ...state, budget: event };
    case "run-seal":
      return { ...state, sealed: true };
    // Failures are in the counts of their task, which a lost attempt takes along.
    case "row-error":
    case "run-progress":
    case "run-stop":
    case "notice":
      return state;
  }
}

function withWorker(state: ProgressState, name: string, worker: WorkerLine): ProgressState {
  return { ...state, workers: new Map(state.workers).set(name, worker) };
}

function withoutWorker(state: ProgressState, name: string): ProgressState {
  const workers = new Map(state.workers);
  workers.delete(name);
  // A dead worker's rows are sent again; its journal says later what was done.
  for (const [task, { worker }] of state.open) if (worker === name) state.open.delete(task);
  return { ...state, workers };
}

function withTask(
  state: ProgressState,
  event: RunEvent & { type: "task-start" | "task-progress" },
): ProgressState {
  const { open, begun } = state;
  if (event.type === "task-start") {
    const { task, worker, rows, resumed: done, resumedUsage: usage } = event;
    // Answers of an earlier attempt of this call belong to this call.
    const first = begun.get(task) ?? { resumed: done, resumedUsage: usage };
    begun.set(task, first);
    open.set(task, {
      worker,
      rows,
      ...first,
      done,
      failed: 0,
      cut: 0,
      errors: {},
      inFlight: 0,
      usage,
    });
    return withHelp(state, rows);
  } else {
    const { worker, done, failed, cut = 0, errors, inFlight, usage, batches } = event;
    const known = open.get(event.task) ?? unknownTask;
    const counts = { done, failed, cut, errors, inFlight, usage, batches };
    open.set(event.task, { ...known, worker, ...counts });
  }
  return state;
}

/** A joining worker that helps others has more tasks than its share. */
function withHelp(state: ProgressState, rows: number): ProgressState {
  const { run, resumedTasks, ended, open } = state;
  const tasks = resumedTasks + ended.tasks + open.size;
  if (!run || tasks <= run.tasks) return state;
  return { ...state, run: { ...run, tasks, rows: run.rows + rows } };
}

function withoutTask(state: ProgressState, event: RunEvent & { type: "task-end" }): ProgressState {
  const { open, begun } = state;
  const known = open.get(event.task) ?? unknownTask;
  const { resumed, resumedUsage } = known;
  open.delete(event.task);
  if (event.outcome === "canceled") {
    // Its journal stays, for this call or a later one, but no worker has it any more.
    const { done, failed, cut = 0, errors, usage } = event;
    const counts = { done, failed, cut, errors, usage, batches: undefined };
    open.set(event.task, { ...known, worker: "", inFlight: 0, ...counts });
  }
  // A failed task begins again, and then reports what its journals hold.
  if (event.outcome === "canceled" || event.outcome === "failed") return state;
  const fresh = Math.max(0, event.done - resumed);
  const { ended } = state;
  begun.delete(event.task);
  const next = {
    ...state,
    resumedRows: state.resumedRows + resumed,
    ended: {
      tasks: ended.tasks + 1,
      rows: ended.rows + fresh,
      failed: ended.failed + event.failed,
      cut: ended.cut + (event.cut ?? 0),
      errors: addErrors(ended.errors, event.errors),
      usage: addUsage(ended.usage, usageSince(event.usage, resumedUsage)),
    },
  };
  const worker = state.workers.get(event.worker);
  if (!worker) return next;
  return withWorker(next, event.worker, { ...worker, finished: worker.finished + fresh });
}

/** Sums over ended and open tasks. */
export interface ProgressTotals {
  done: number;
  /** Those that are rows of this call. */
  fresh: number;
  failed: number;
  /** Rows with an answer that reached its token limit. */
  cut: number;
  /** Failed rows by code, with the first message of each. */
  errors: ErrorCounts;
  inFlight: number;
  /** The tokens of this call. */
  usage: Usage;
}

/** The work of all tasks together. */
export function totalsOf(state: ProgressState): ProgressTotals {
  let { rows: fresh, failed, cut, errors, usage } = state.ended;
  let done = state.resumedRows + fresh;
  let inFlight = 0;
  for (const task of state.open.values()) {
    done += task.done;
    fresh += Math.max(0, task.done - task.resumed);
    failed += task.failed;
    cut += task.cut;
    errors = addErrors(errors, task.errors);
    inFlight += task.inFlight;
    usage = addUsage(usage, usageSince(task.usage, task.resumedUsage));
  }
  return { done, fresh, failed, cut, errors, inFlight, usage };
}

/** The batches at a provider by their states, each sum in the order of its first batch. */
function sumOfBatches(state: ProgressState): BatchSum[] {
  const found = [...state.open.values()].flatMap(({ batches = [] }) => batches);
  return addBatches(found.map((each) => ({ ...each, batches: 1 })));
}

/** Sums of several processes. */
export function addBatches(all: readonly BatchSum[]): BatchSum[] {
  const sums = new Map<string, BatchSum>();
  for (const { state, batches, requests, done } of all) {
    const sum = sums.get(state) ?? { state, batches: 0, requests: 0, done: 0 };
    sum.batches += batches;
    sum.requests += requests;
    sum.done += done;
    sums.set(state, sum);
  }
  return [...sums.values()];
}

/** What a terminal, `status` and other programs show of a process at `now`. */
export function progressOf(state: ProgressState, now: number): RunProgress {
  const { done, fresh, failed, cut, inFlight, usage } = totalsOf(state);
  const rows = state.run?.rows ?? 0;
  const from = state.samples[0];
  const seconds = from ? (now - from.at) / 1000 : 0;
  const per = (after: number, before = 0) =>
    seconds > 0 ? Math.max(0, after - before) / seconds : 0;
  const rowsPerSecond = per(fresh, from?.rows);
  const batches = sumOfBatches(state);
  return {
    ...{ done, rows, failed, cut, inFlight, usage, rowsPerSecond },
    promptTokensPerSecond: per(usage.promptTokens, from?.usage.promptTokens),
    completionTokensPerSecond: per(usage.completionTokens, from?.usage.completionTokens),
    etaSeconds: done < rows && rowsPerSecond > 0 ? (rows - done) / rowsPerSecond : null,
    ...(batches.length > 0 && { batches }),
  };
}

function sampled(state: ProgressState, now: number): ProgressState {
  const last = state.samples.at(-1);
  if (!state.run || (last && now - last.at < sampleIntervalMs)) return state;
  const { fresh, usage } = totalsOf(state);
  // The loading time of a model does not count in a rate.
  const isWaiting =
    fresh === 0 && state.workers.size > 0 && state.samples.every(({ rows }) => rows === 0);
  const recent = isWaiting ? [] : state.samples.filter(({ at }) => now - at <= rateWindowMs);
  return { ...state, samples: [...recent, { at: now, rows: fresh, usage }] };
}
