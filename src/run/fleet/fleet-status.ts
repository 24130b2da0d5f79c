import type { Storage } from "../../data/storage/storage.ts";
import { resultCodeOf } from "../../engines/program-failure.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { indexesIn } from "../../foundation/index-set.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { LookOptions } from "../coordinate/lives.ts";
import { rowLogsPrefix, stagedPath, stagedPrefix } from "../directory/layout.ts";
import { runStorage } from "../directory/run-storage.ts";
import type { StateWord } from "../status/state-words.ts";
import {
  type RunStatus,
  StatusReader,
  type StatusReport,
  type TaskStatus,
} from "../status/status.ts";
import type { CommandRow } from "./commands.ts";
import { type Fleet, type FleetBatch, rowsOfBatch, runOfBatch } from "./fleet.ts";

/** A fleet at one moment. */
export interface FleetStatus {
  id: string;
  name: string;
  state: StateWord;
  /** Why, if the state does not say enough. */
  reason: string | null;
  createdAt: string;
  ageSeconds: number;
  location: string;
  tasks: Record<StateWord | "total", number>;
  runs: RunStatus[];
}

export interface FleetTask {
  index: string;
  id: string;
  state: StateWord;
  /** Exit code of its program's last try; null as long as there is none. */
  resultCode: number | null;
  /** Name of the worker that has it, or had it last. */
  worker: string | null;
  cause: string | null;
  /** Its batch, and its row there. */
  batch: number;
  row: number;
}

export interface FleetWorker {
  /** Short, for people: the fleet's name and a number. */
  name: string;
  id: string;
  state: StateWord;
  host: string;
  pid: number;
  device: string;
  scheduler: string | null;
  run: string;
}

export interface ReadFleetOptions extends LookOptions {
  openStorage(location: string): Storage;
  /** Reads tasks and workers as well. */
  hasTasks?: boolean;
}

/**
 * Reads a fleet from the runs of its batches, by the code that reads the state of any run.
 *
 * @throws SluiceError of the store, `RUN_DAMAGED`.
 */
export async function readFleet(
  fleet: Fleet,
  options: ReadFleetOptions,
): Promise<{ status: FleetStatus; tasks: FleetTask[]; workers: FleetWorker[] }> {
  const { record, location, batches, storage } = fleet;
  const runs: { batch: FleetBatch; report: StatusReport; run: Storage }[] = [];
  const status: FleetStatus = {
    ...{ id: record.id, name: record.name, createdAt: record.createdAt, location },
    ...{ state: "pending", reason: null, runs: [] },
    ageSeconds: Math.max(0, (options.clock.now() - Date.parse(record.createdAt)) / 1000),
    tasks: { failed: 0, canceled: 0, successful: 0, running: 0, pending: 0, total: 0 },
  };
  let unplanned: FleetBatch | undefined;
  for (const batch of batches) {
    const run = runStorage(options.openStorage(runOfBatch(fleet, batch)));
    const report = await readRun(run, options);
    if (report && record.mounts.length > 0) await noteStaged(report, run);
    if (report) runs.push({ batch, report, run });
    // Its planner is at work, or died.
    else {
      status.tasks.pending += batch.tasks;
      unplanned ??= batch;
    }
    status.tasks.total += batch.tasks;
  }
  for (const { report, run } of runs) await countRun(report, run, status.tasks);
  status.runs = runs.map(({ report }) => report.run);
  Object.assign(status, verdictOf(status, unplanned));
  const workers = workersOf(
    record.name,
    runs.map(({ report }) => report),
  );
  if (!options.hasTasks) return { status, tasks: [], workers };
  const names = new Map(workers.map(({ id, name }) => [id, name]));
  const tasks: FleetTask[] = [];
  for (const { batch, report, run } of runs) {
    const rows = await rowsOfBatch(storage, batch);
    for (const task of report.tasks) {
      const row = rows[task.task];
      if (row) tasks.push(await taskOf(task, row, { batch, report, run, names }));
    }
  }
  return { status, tasks, workers };
}

/** @returns undefined for a batch that is not planned yet. */
async function readRun(
  run: Storage,
  { clock, processes, hasTasks = false }: ReadFleetOptions,
): Promise<StatusReport | undefined> {
  try {
    const reader = new StatusReader(run, { clock, processes });
    const report = await reader.read({ tasks: hasTasks });
    // Which tasks run is in their logs.
    const isBusy = report.run.tasks.running > 0 && !hasTasks;
    return isBusy ? await reader.read({ tasks: true }) : report;
  } catch (error) {
    if (asSluiceError(error).code === "NOT_A_RUN") return undefined;
    throw error;
  }
}

/**
 * Counts tasks whose results in mounts count, though their worker was ended before their commit:
 * their programs do not run again.
 */
async function noteStaged({ run: status, tasks }: StatusReport, run: Storage): Promise<void> {
  const { state, openTasks, generation } = status;
  if ((state !== "canceled" && state !== "failed") || openTasks === "") return;
  const staged = new Set<string>();
  for await (const { path } of run.list(stagedPrefix)) staged.add(path);
  for (const task of indexesIn(openTasks)) {
    if (!staged.has(stagedPath(task, { generation }))) continue;
    status.tasks[state]--;
    status.tasks.successful++;
    if (tasks[task]) Object.assign(tasks[task], { state: "successful", failed: 0 });
  }
}

/** A task is one row: it is successful if it is committed and its row did not fail. */
async function countRun(
  report: StatusReport,
  run: Storage,
  counts: FleetStatus["tasks"],
): Promise<void> {
  const { tasks, rows } = report.run;
  counts.failed += tasks.failed + rows.failed;
  counts.successful += tasks.successful - rows.failed;
  counts.canceled += tasks.canceled;
  const running = report.tasks.filter(({ state }) => state === "running");
  let atWork = 0;
  for (const task of running) if (await workerAt(task, report, run)) atWork++;
  counts.running += atWork;
  counts.pending += tasks.pending + tasks.running - atWork;
}

/** A state of any run that needs attention counts for the fleet. */
const states: readonly StateWord[] = ["running", "pending", "failed", "canceled", "successful"];

function verdictOf(
  { runs, tasks }: FleetStatus,
  unplanned: FleetBatch | undefined,
): Pick<FleetStatus, "state" | "reason"> {
  const isRunning = runs.some((run) => run.state === "running");
  if (unplanned && !isRunning) {
    return { state: "pending", reason: `batch ${unplanned.number} is not planned` };
  }
  if (runs.length === 0) return { state: "pending", reason: null };
  const state = states.find((word) => runs.some((run) => stateOfRun(run) === word))!;
  if (state === "failed" && runs.every((run) => run.sealedAt !== null || isDone(run))) {
    return { state, reason: `${tasks.failed} of ${tasks.total} tasks failed` };
  }
  const { reason } = runs.find((run) => stateOfRun(run) === state)!;
  return { state, reason: state === "successful" ? null : reason };
}

/**
 * A run whose tasks have all ended is as they are, though whoever was to seal it was stopped or
 * died: no program will run again.
 */
function stateOfRun(run: RunStatus): StateWord {
  if (run.sealedAt !== null || run.state === "running" || !isDone(run)) return run.state;
  return run.rows.failed > 0 ? "failed" : "successful";
}

const isDone = ({ tasks }: RunStatus) => tasks.total > 0 && tasks.successful === tasks.total;

function workersOf(fleet: string, reports: readonly StatusReport[]): FleetWorker[] {
  const workers = reports.flatMap(({ run, workers }) =>
    workers.map((worker) => ({ ...worker, run: run.location })),
  );
  // Ids sort by time, so that a name stays the same.
  const sorted = workers.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return sorted.map(({ id, state, host, pid, device, scheduler = null, run }, at) => ({
    ...{ name: `${fleet}-${at}`, id, state, host, pid, device, scheduler, run },
  }));
}

interface Around {
  batch: FleetBatch;
  report: StatusReport;
  run: Storage;
  names: ReadonlyMap<string, string>;
}

async function taskOf(task: TaskStatus, row: CommandRow, around: Around): Promise<FleetTask> {
  const { batch, run, names, report } = around;
  const facts = { index: row.idx, id: row.id, batch: batch.number, row: task.task };
  const nameOf = (worker: string | null) =>
    worker === null ? null : (names.get(worker) ?? worker);
  const worker = nameOf(task.worker);
  if (task.failed !== null) {
    const hasFailed = task.failed > 0;
    const code = hasFailed ? resultCodeOf(task.error?.message ?? "") : 0;
    const state = hasFailed ? "failed" : "successful";
    const cause = hasFailed ? (task.error?.message ?? null) : null;
    return { ...facts, state, resultCode: code ?? null, worker, cause };
  }
  const none = { ...facts, resultCode: null, cause: null };
  if (task.state === "running") {
    const at = await workerAt(task, report, run);
    return { ...none, state: at ? "running" : "pending", worker: nameOf(at ?? null) };
  }
  const cause = task.state === "failed" ? (task.error?.message ?? report.run.reason) : null;
  return { ...none, state: task.state, cause, worker: task.state === "pending" ? null : worker };
}

/** One try of a task's program, from its log. */
export interface LoggedTry {
  path: string;
  output: { stream: "out" | "err"; text: string }[];
  worker: string | null;
  startedAt: string | null;
  /** How it ended; undefined if it runs, or if its worker died. */
  end: JsonObject | undefined;
}

/** Paths of the logs of a task's tries, the first one first. */
export async function logsOf(run: Storage, row: number): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path } of run.list(rowLogsPrefix(row))) paths.push(path);
  return paths;
}

/** Reads a log; a torn last line is left out. */
export async function readLog(run: Storage, path: string): Promise<LoggedTry> {
  const text = Buffer.from(await run.read(path)).toString();
  const found: LoggedTry = { path, output: [], worker: null, startedAt: null, end: undefined };
  for (const line of text.split("\n").slice(0, -1)) {
    const { start, out, err, end } = JSON.parse(line) as {
      start?: { at: string; worker: string | null };
      out?: string;
      err?: string;
      end?: JsonObject;
    };
    if (start) Object.assign(found, { worker: start.worker, startedAt: start.at });
    if (out !== undefined) found.output.push({ stream: "out", text: out });
    if (err !== undefined) found.output.push({ stream: "err", text: err });
    if (end) found.end = end;
  }
  return found;
}

/**
 * The worker that runs the program of a task now; undefined if none does: a worker opens tasks
 * ahead, and after a failed try a task waits for the next one.
 */
async function workerAt(
  { task }: TaskStatus,
  { workers }: StatusReport,
  run: Storage,
): Promise<string | undefined> {
  const path = (await logsOf(run, task)).at(-1);
  if (path === undefined) return undefined;
  const { worker, end } = await readLog(run, path);
  const hasFailed = end !== undefined && (end.exitCode !== 0 || end.isLate === true);
  const isAlive = workers.some(({ id, state }) => id === worker && state === "running");
  return isAlive && !hasFailed ? (worker ?? undefined) : undefined;
}
