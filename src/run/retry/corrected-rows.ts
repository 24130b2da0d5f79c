import type { InputFile } from "../../data/inputs.ts";
import type { InputRow, Slice } from "../../data/row.ts";
import { readRows, scanAgain } from "../../data/slices.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type ExactRow, parseExactly } from "../../foundation/exact-json.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import type { Commit } from "../attempt/commit.ts";
import { changedRows } from "../attempt/row-hashes.ts";
import type { RunDependencies } from "../dependencies.ts";
import { type FileRecord, storeFile } from "../directory/file-record.ts";
import { rowHashesPath } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";
import { reachOf } from "../plan/job-files.ts";
import {
  eachTask,
  type Plan,
  partDigits,
  readOptionsOf,
  storeTasks,
  type Task,
} from "../plan/plan.ts";
import { type FoundInput, findInput } from "../plan/scan-input.ts";
import type { Manifest } from "../seal/manifest.ts";
import type { RunEvent } from "../status/events.ts";
import { type FailedRow, failedRowsOf } from "./cut-rows.ts";
import { type FindTasks, type RetryRequest, type RetryTasks, retryTask } from "./plan-retry.ts";
import { changedInput, rescanInput, rowHashesOf } from "./rescan.ts";

/** What the search for corrected rows needs. */
interface Correcting {
  storage: Storage;
  dependencies: RunDependencies;
  job: JobSpec;
  onEvent(event: RunEvent): void;
}

/** How a retry finds corrected rows: in the input, or in a separate file. */
export function correctedTasks(
  storage: Storage,
  dependencies: RunDependencies,
  { job, reread }: RetryRequest,
  onEvent: (event: RunEvent) => void,
): FindTasks {
  const correcting: Correcting = { storage, dependencies, job, onEvent };
  if (typeof reread === "object") {
    return (run, base) => tasksOfFile(correcting, run, base, reread.file);
  }
  return (run, base, generation, uniqueId) =>
    tasksOfInput(correcting, run, base, { generation, uniqueId });
}

/**
 * Failed rows at their present places in the input.
 *
 * @throws SluiceError `INPUT_CHANGED` if a row that did not fail has changed.
 */
async function tasksOfInput(
  correcting: Correcting,
  run: Plan,
  base: Manifest,
  planned: { generation: number; uniqueId: string },
): Promise<RetryTasks> {
  const { storage, dependencies, job, onEvent } = correcting;
  const { inputs } = dependencies;
  const found = await findInput(job, inputs);
  const before = await Array.fromAsync(eachTask(storage, run));
  const rescanning = { job, planned: run.input, openFile: found.openFile };
  const { tasks, changed, appended } = await rescanInput(before, found, rescanning);
  if (appended.length > 0) {
    const rows = appended.reduce((sum, task) => sum + task.rows, 0);
    const message = `${rows} rows were appended to the input: sluice run with --extend processes them`;
    onEvent({ type: "notice", message });
  }
  for (const [task, slices] of changed) {
    const entry = base.tasks[task]!;
    const rowHashes = await unchangedBut(correcting, entry, tasks[task]!, slices);
    tasks[task] = { ...tasks[task]!, rowHashes };
  }
  const { generation, uniqueId } = planned;
  const whole = await storeTasks(storage, generation, uniqueId, tasks);
  const { count, file, index } = whole;
  return {
    tasks: failedTasks(storage, tasks, base),
    facts: {
      whole: { tasks: { count, file, index }, rows: base.rows.total, partDigits: partDigits(run) },
      // Appended rows are not yet in the run: until they are, the input differs from the planned
      // one.
      ...(appended.length === 0 && { input: { ...run.input, ...factsOf(found) } }),
    },
  };
}

export function factsOf({ files, bytes, digest, modifiedDigest }: FoundInput) {
  return { files: files.length, bytes, digest, modifiedDigest };
}

async function* failedTasks(
  storage: Storage,
  tasks: readonly Task[],
  base: Manifest,
): AsyncGenerator<Task> {
  let number = 0;
  for (const entry of base.tasks) {
    const rows = await failedRowsOf(storage, entry);
    if (rows.length > 0) yield retryTask(tasks[entry.task]!, entry.task, number++, rows);
  }
}

/**
 * Hashes of a task's present rows.
 *
 * @throws SluiceError `INPUT_CHANGED` if a row that did not fail has changed.
 */
async function unchangedBut(
  { storage, dependencies, job }: Correcting,
  entry: Manifest["tasks"][number],
  task: Task,
  slices: readonly Slice[],
): Promise<FileRecord> {
  const [slice] = slices;
  const place = { file: slice!.file, line: slice!.firstLine };
  const letters = await failedRowsOf(storage, entry);
  const failed = new Set(letters.map(({ index }) => index));
  const { rowHashes } = (await readJson<Commit>(storage, entry.commit.path))!;
  const known = task.rowHashes ?? rowHashes;
  if (!known) {
    const why =
      failed.size === 0
        ? "no row failed there"
        : "which rows cannot be told: the run was made by an older version of Sluice";
    const rows = `rows ${task.firstRow} to ${task.firstRow + task.rows - 1} (from 0)`;
    throw changedInput(`${rows} are not as they were, and ${why}`, place);
  }
  const now = await rowHashesOf(task, {
    job,
    openFile: dependencies.inputs.within(reachOf(job)).open,
  });
  const changed = changedRows(await storage.read(known.path), now);
  const other = changed?.find((row) => !failed.has(task.firstRow + row));
  if (changed === undefined || other !== undefined) {
    const row = task.firstRow + (other ?? 0);
    throw changedInput(`row ${row} (from 0) changed, and it had not failed`, place);
  }
  // Named by its content: two planners never overwrite each other's file.
  return await storeFile(storage, rowHashesPath(sha256Hex(now)), now);
}

interface PlacedRow extends FailedRow {
  task: number;
}

/** Failed rows in a separate file: found by id, or in the order of the failures. */
async function tasksOfFile(
  correcting: Correcting,
  run: Plan,
  base: Manifest,
  path: string,
): Promise<RetryTasks> {
  const { storage, dependencies, job, onEvent } = correcting;
  const failed = await failedRows(storage, base);
  const [source] = job.input;
  const { maxLineBytes } = source!;
  const files = await dependencies.inputs.expand([{ path, maxLineBytes }], "/");
  const before = await Array.fromAsync(eachTask(storage, run));
  const fields = new Set(before.flatMap(({ slices }) => slices.map(({ id }) => id)));
  const [field] = fields;
  const places = await placesIn(files, field, failed, correcting);
  const known = failed.filter(({ index }) => places.has(index));
  onEvent({
    type: "notice",
    message: `${known.length} of ${failed.length} failed rows are in ${shownPath(path)}`,
  });
  return { tasks: tasksAt(known, places, before) };
}

async function failedRows(storage: Storage, base: Manifest): Promise<PlacedRow[]> {
  const rows: PlacedRow[] = [];
  for (const entry of base.tasks) {
    const { task } = entry;
    for (const row of await failedRowsOf(storage, entry)) rows.push({ ...row, task });
  }
  return rows;
}

/** Rows of the file to read at once, for their ids. */
const rowsAtOnce = 1000;

/**
 * Where the file has each failed row, by the row's index. A row with the id of a failed row is that
 * row; the other rows must be as many as failed rows without such an id, in their order.
 */
async function placesIn(
  files: readonly InputFile[],
  field: string | undefined,
  failed: readonly FailedRow[],
  { dependencies, job }: Correcting,
): Promise<Map<number, Slice>> {
  const byId = new Map<FailedRow["id"], number>();
  for (const { id, index } of failed) if (id !== null) byId.set(id, index);
  const places = new Map<number, Slice>();
  const others: Slice[] = [];
  const { open: openFile } = dependencies.inputs;
  const options = { ...readOptionsOf(job), openFile };
  let waiting: Slice[] = [];
  const settle = async () => {
    let at = 0;
    for await (const rows of readRows(waiting, 0, openFile, options)) {
      for (const row of rows) {
        const slice = waiting[at++]!;
        const index = field === undefined ? undefined : byId.get(idIn(row, field));
        if (index === undefined) others.push(slice);
        else places.set(index, slice);
      }
    }
    waiting = [];
  };
  for (const file of files) {
    for await (const slice of scanAgain(file, [], { ...options, rowsPerTask: 1 })) {
      waiting.push(slice);
      if (waiting.length >= rowsAtOnce) await settle();
    }
  }
  await settle();
  return withOthers(places, others, failed);
}

/** The id of a row with all its digits, as dead letters have it. */
function idIn({ value, raw }: InputRow, field: string): FailedRow["id"] {
  const id = value?.[field] as string | number | undefined;
  const isRounded = typeof id === "number" && !Number.isSafeInteger(id);
  return isRounded ? ((parseExactly(raw) as ExactRow)[field] as number | bigint) : (id ?? null);
}

function withOthers(
  places: Map<number, Slice>,
  others: readonly Slice[],
  failed: readonly FailedRow[],
): Map<number, Slice> {
  if (others.length === 0) return places;
  const without = failed.filter(({ id, index }) => id === null && !places.has(index));
  if (others.length !== without.length) {
    const [first] = others;
    const detail =
      `${others.length} of its rows have no id of a failed row, ` +
      `and ${without.length} failed rows have no id`;
    throw new SluiceError("INPUT_CHANGED", detail, {
      file: shownPath(first!.file),
      line: first!.firstLine,
      hint: "give the failed rows alone, in their order: sluice results RUN --failed --as-input",
    });
  }
  for (const [at, { index }] of without.entries()) places.set(index, others[at]!);
  return places;
}

function* tasksAt(
  known: readonly PlacedRow[],
  places: ReadonlyMap<number, Slice>,
  before: readonly Task[],
): Generator<Task> {
  let number = 0;
  for (const [of, rows] of Map.groupBy(known, ({ task }) => task)) {
    const task = before[of]!;
    const sorted = rows.toSorted((a, b) => a.index - b.index);
    const slices = sorted.map(({ index }) => {
      const { id, source, dataset, output } = sliceWith(task, index);
      const facts = { id, source, dataset, output };
      const own = Object.entries(facts).filter(([, value]) => value !== undefined);
      return { ...places.get(index)!, ...Object.fromEntries(own), firstRow: index };
    });
    yield { ...retryTask(task, of, number++, sorted), slices };
  }
}

function sliceWith({ slices, firstRow }: Task, index: number): Slice {
  let at = firstRow;
  for (const slice of slices) {
    at += slice.rows;
    if (index < at) return slice;
  }
  throw new RangeError(`row ${index} is not in the task`);
}
