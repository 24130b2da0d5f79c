import { isUncut } from "../../data/formats/registry.ts";
import type { InputFile, InputSource } from "../../data/inputs.ts";
import type { OpenFile } from "../../data/open-files.ts";
import { estimateRows, type LongerTasks, readRows, scanSlices } from "../../data/slices.ts";
import type { InputStores } from "../../data/sources/open.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { describeEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import { indexSetOf } from "../../foundation/index-set.ts";
import { limits } from "../../foundation/limits.ts";
import { type Random, randomInteger, seededRandom } from "../../foundation/random.ts";
import { shares } from "../../foundation/shares.ts";
import { datasetInputs } from "../job/dataset.ts";
import type { JobSpec } from "../job/schema.ts";
import { idFieldOf } from "../openai-batch/batch-lines.ts";
import type { RunEvent } from "../status/events.ts";
import { assertInputsNamed, assertOpenedByEngine, reachOf } from "./job-files.ts";
import { promptSetOf } from "./job-prompts.ts";
import {
  type InputSummary,
  type Plan,
  readOptionsOf,
  type StoredTasks,
  storeTasks,
  type Task,
} from "./plan.ts";
import { firstText, prefixOrderPays, type RowOrder } from "./prefix-order.ts";
import { withoutRuns } from "./run-files.ts";

export interface InputScan {
  storage: Storage;
  job: JobSpec;
  /** Seed of `--sample`. */
  seed: number;
  /** The run's workers; the default size of a task follows from their number. */
  workers: number;
  uniqueId: string;
  openFile: OpenFile;
  onEvent(event: RunEvent): void;
}

/** The input before any of it was read. */
export interface FoundInput {
  files: readonly InputFile[];
  bytes: number;
  digest: string;
  modifiedDigest: string;
  /** Files that runs made; globs and folders skip them. */
  leftOutResults?: number;
}

/**
 * Lists the inputs of a job.
 *
 * @throws SluiceError `INPUT_MISSING`, `INPUT_FORMAT`, `INPUT_TOO_MANY_FILES`.
 */
export async function findInput(
  job: JobSpec,
  inputs: Pick<InputStores, "within">,
): Promise<FoundInput & { openFile: OpenFile }> {
  const stores = inputs.within(reachOf(job));
  const { files, leftOut } = await withoutRuns(sourcesOf(job), "/", job.output, stores);
  assertOpenedByEngine(job, files);
  assertInputsNamed(job, files);
  return {
    files,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    digest: digestOf(files.map(digestedFacts)),
    modifiedDigest: digestOf(files.map(({ modifiedMs }) => modifiedMs)),
    ...(leftOut > 0 && { leftOutResults: leftOut }),
    openFile: stores.open,
  };
}

/** The difference between inputs, without their content. */
function digestedFacts({ path, bytes, format, etag, output }: InputFile) {
  return [path, bytes, format, ...(etag || output ? [etag ?? null, output ?? null] : [])];
}

function sourcesOf({ input, dataset }: JobSpec): InputSource[] {
  if (dataset === undefined) return input;
  return datasetInputs(dataset).map((source) => ({ ...source.input, dataset: source.dataset }));
}

/**
 * Rows of a task if the job does not say: enough tasks to keep workers level at the end, and near
 * that size the largest one with which the busiest worker gets the fewest rows.
 */
export function defaultTaskRows(rows: number, workers: number): number {
  const most = Math.max(4, Math.min(limits.maxTaskRows, Math.ceil(rows / (workers * 16))));
  let best = most;
  for (let size = most; size >= Math.max(4, most / 2); size--) {
    if (busiestRows(rows, workers, size) < busiestRows(rows, workers, best)) best = size;
  }
  return best;
}

/** Rows of the busiest worker, if tasks of `size` go round. */
function busiestRows(rows: number, workers: number, size: number): number {
  return Math.min(rows, Math.ceil(Math.ceil(rows / size) / workers) * size);
}

/**
 * As `defaultTaskRows`, for rows in prefix order: the larger a task, the more of its prompts have a
 * common beginning.
 */
export function prefixTaskRows(rows: number, workers: number): number {
  return Math.max(4, Math.min(limits.maxTaskRows, Math.ceil(rows / workers)));
}

/** One streaming pass over the input: cuts it into tasks, and stores them. */
export async function scanInput(
  found: FoundInput,
  options: InputScan,
  rowsPerTask: number,
  longerTasks?: LongerTasks,
): Promise<{ tasks: StoredTasks; input: InputSummary }> {
  const { job, storage, uniqueId, seed } = options;
  let largestTaskRows = 0;
  const size = { rowsPerTask, ...(longerTasks && { longerTasks }) };
  const scan = tapped(scanTasks(found, options, size), (task) => {
    largestTaskRows = Math.max(largestTaskRows, task.rows);
  });
  let tasks: StoredTasks;
  let rows = 0;
  if (job.sample === undefined) {
    tasks = await storeTasks(storage, 1, uniqueId, scan);
    rows = tasks.rows;
  } else {
    // The sample is drawn from all rows, whose number is known only after the pass.
    const all: Task[] = [];
    for await (const task of scan) all.push(task);
    rows = all.reduce((sum, task) => sum + task.rows, 0);
    const chosen = drawSample(rows, job.sample, seededRandom(seed));
    tasks = await storeTasks(storage, 1, uniqueId, onlyChosen(all, chosen));
  }
  const { bytes, digest, modifiedDigest } = found;
  const files = found.files.length;
  const compressedFiles = found.files.filter(isUncut).length;
  const input = { files, bytes, rows, ...size, digest, modifiedDigest };
  const sources = sourcesOf(job);
  const isByEnding = ({ format, source }: InputFile) =>
    format === "text" && sources[source]?.format === undefined;
  const lineFiles = found.files.filter(isByEnding).length;
  const leftOutFiles = found.files.reduce((sum, { leftOut = 0 }) => sum + leftOut, 0);
  const told = {
    ...(lineFiles > 0 && { lineFiles }),
    ...(leftOutFiles > 0 && { leftOutFiles }),
    ...(found.leftOutResults !== undefined && { leftOutResults: found.leftOutResults }),
    ...(compressedFiles > 0 && { compressedFiles }),
    ...(largestTaskRows > rowsPerTask && { largestTaskRows }),
  };
  return { tasks, input: { ...input, ...told } };
}

async function* tapped<T>(values: AsyncIterable<T>, see: (value: T) => void): AsyncGenerator<T> {
  for await (const value of values) {
    see(value);
    yield value;
  }
}

/** Whether a task may hold a few more rows, such as up to a border in the file. */
function isTaskSizeFree({ shard, model }: JobSpec): boolean {
  if (shard.rows !== undefined || shard.count !== undefined) return false;
  return (describeEngine(model).taskRowsMultiple?.(model) ?? 1) === 1;
}

export interface TaskSize {
  rowsPerTask: number;
  longerTasks?: LongerTasks;
}

/**
 * Rows of each task, from the job or from a look at the files. With a given number of tasks, their
 * sizes differ by at most one row (in a pipeline with batches: one batch); none is empty.
 */
export async function taskSize(
  found: FoundInput,
  job: JobSpec,
  workers: number,
  order: RowOrder,
  openFile: OpenFile,
): Promise<TaskSize> {
  const multiple = describeEngine(job.model).taskRowsMultiple?.(job.model) ?? 1;
  const { rows, count } = job.shard;
  if (rows === undefined && count !== undefined) {
    const units = Math.ceil((await countRows(found, job, openFile)) / multiple);
    return countedSize(units, count, multiple);
  }
  const wanted = rows ?? (await defaultRows(found, job, { workers, order, openFile }));
  return { rowsPerTask: Math.ceil(wanted / multiple) * multiple };
}

/** The size of `count` tasks that together hold `units` of equally many rows. */
function countedSize(units: number, count: number, rowsOfUnit: number): TaskSize {
  const all = Math.max(1, units);
  const sizes = shares(all, Math.min(all, count));
  const [most, least] = [sizes[0]!, sizes.at(-1)!];
  const rowsPerTask = least * rowsOfUnit;
  if (most === least) return { rowsPerTask };
  const tasks = sizes.filter((size) => size === most).length;
  return { rowsPerTask, longerTasks: { tasks, rows: most * rowsOfUnit } };
}

async function defaultRows(
  found: FoundInput,
  job: JobSpec,
  by: { workers: number; order: RowOrder; openFile: OpenFile },
): Promise<number> {
  const { workers, order, openFile } = by;
  const estimated = Math.min(await estimateRows(found.files, openFile), job.limit ?? Infinity);
  const wanted = describeEngine(job.model).taskRows?.(job.model, estimated);
  if (wanted !== undefined) return Math.max(1, Math.min(limits.maxTaskRows, wanted));
  const sizeFor = order === "prefix" ? prefixTaskRows : defaultTaskRows;
  return sizeFor(estimated, workers);
}

/** Rows of the input, up to the job's limit: only a full pass can count them. */
async function countRows({ files }: FoundInput, job: JobSpec, openFile: OpenFile): Promise<number> {
  const { limit } = job;
  const cut = {
    ...readOptionsOf(job),
    rowsPerTask: limits.maxTaskRows,
    ...(limit !== undefined && { limit }),
    openFile,
  };
  let count = 0;
  for await (const { rows } of scanSlices(files, cut)) count += rows;
  return count;
}

const orderSampleRows = 200;

/**
 * The order in which rows are sent: the job's; or, for engines with a prefix cache, by prefix if
 * that lets the first prompts of the input share more.
 */
export async function plannedOrder(
  found: FoundInput,
  job: JobSpec,
  openFile: OpenFile,
): Promise<RowOrder> {
  if (job.order !== "auto") return job.order;
  if (!describeEngine(job.model).keepsPrefixes) return "input";
  const reading = readOptionsOf(job);
  const promptSet = promptSetOf(job, 0);
  const texts: string[] = [];
  const limit = Math.min(orderSampleRows, job.limit ?? Infinity);
  const cut = { ...reading, rowsPerTask: limit, limit, openFile };
  for await (const { slices, firstRow } of scanSlices(found.files, cut)) {
    for await (const rows of readRows(slices, firstRow, openFile, reading)) {
      for (const row of rows) texts.push(firstText(promptSet, row));
    }
  }
  return prefixOrderPays(texts) ? "prefix" : "input";
}

async function* scanTasks(
  found: FoundInput,
  { job, openFile, onEvent }: InputScan,
  size: TaskSize,
): AsyncGenerator<Task> {
  const ids = job.input.map(idFieldOf);
  const idOf = new Map(found.files.map(({ path, source }) => [path, ids[source]]));
  let task = 0;
  const scan = scanSlices(found.files, {
    ...readOptionsOf(job),
    ...size,
    atOwnBorders: isTaskSizeFree(job),
    ...{ limit: job.limit, openFile },
    onProgress: (rows, bytes) =>
      onEvent({ type: "plan-progress", rows, bytes, totalBytes: found.bytes }),
  });
  for await (const { slices, firstRow, rows } of scan) {
    const identified = slices.map((slice) => {
      const id = idOf.get(slice.file);
      return id === undefined ? slice : { ...slice, id };
    });
    yield { task: task++, firstRow, rows, slices: identified };
  }
}

/** `size` different row indexes below `rows`, evenly drawn, ascending (Floyd's method). */
export function drawSample(rows: number, size: number, random: Random): number[] {
  const chosen = new Set<number>();
  for (let limit = Math.max(0, rows - size); limit < rows; limit++) {
    const index = randomInteger(random, limit + 1);
    chosen.add(chosen.has(index) ? limit : index);
  }
  return [...chosen].sort((a, b) => a - b);
}

/** The tasks with at least one of the chosen rows, renumbered. */
export function* onlyChosen(tasks: Iterable<Task>, chosen: readonly number[]): Generator<Task> {
  let at = 0;
  let number = 0;
  for (const task of tasks) {
    const rows: number[] = [];
    for (; at < chosen.length && chosen[at]! < task.firstRow + task.rows; at++) {
      rows.push(chosen[at]!);
    }
    if (rows.length === 0) continue;
    const only = indexSetOf(rows);
    yield { ...task, task: number++, only, onlyRows: rows.length };
  }
}

const sizeOf = (files: number, bytes: number) =>
  `${files} ${files === 1 ? "file" : "files"} of ${bytes} bytes`;

/** @throws SluiceError `INPUT_CHANGED` if the input is not the planned one. */
export async function assertSameInput(
  { input: planned, tasks: plannedTasks }: Pick<Plan, "input" | "tasks">,
  found: FoundInput,
  options: InputScan,
): Promise<void> {
  if (found.digest !== planned.digest) {
    throw new SluiceError(
      "INPUT_CHANGED",
      `the plan has ${sizeOf(planned.files, planned.bytes)}, ` +
        `the input has ${sizeOf(found.files.length, found.bytes)} now`,
    );
  }
  // Equal times count as equal content; other times are worth a checksum.
  if (found.modifiedDigest === planned.modifiedDigest) return;
  const { rowsPerTask, longerTasks } = planned;
  const { tasks } = await scanInput(found, options, rowsPerTask, longerTasks);
  if (tasks.file.sha256 !== plannedTasks.file.sha256) {
    throw new SluiceError("INPUT_CHANGED", "its content changed (checksums differ)");
  }
}
