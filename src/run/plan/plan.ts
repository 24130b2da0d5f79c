import type { Column } from "../../data/columns.ts";
import type { OpenFile } from "../../data/open-files.ts";
import type { InputRow, Slice } from "../../data/row.ts";
import { type LongerTasks, type ReadOptions, readRows } from "../../data/slices.ts";
import { bytesReader } from "../../data/storage/bytes-reader.ts";
import type { RandomReader, Storage, Writer } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import { indexesIn } from "../../foundation/index-set.ts";
import { limits } from "../../foundation/limits.ts";
import type { RequestCounts } from "../attempt/request-counts.ts";
import { type FileRecord, storeFile } from "../directory/file-record.ts";
import { partWidth, planPathOf, type RunGeneration, tasksPathOf } from "../directory/layout.ts";
import { linesOf } from "../directory/lines.ts";
import { readJson, recordBytes } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";
import type { RowOrder } from "./prefix-order.ts";

/** A file of tasks up to this size is written, and read, as a whole. */
const maxWholeTasksBytes = 1024 * 1024;

/** Unit of scheduling and commit: a contiguous range of input rows. */
export interface Task {
  task: number;
  /** Stable index of its first row. */
  firstRow: number;
  rows: number;
  slices: Slice[];
  /** Only these rows of the range, as an index set: a sample, or a retry's rows. */
  only?: string;
  /** Number of rows in `only`. */
  onlyRows?: number;
  /** In a retry: the task of the run that these rows belong to. */
  of?: number;
  /**
   * In a retry: the requests of its rows in the run's counts, which those of the retry replace;
   * `same` for answered rows, which keep their count.
   */
  replaces?: RequestCounts | "same";
  /** Hashes of its rows, if those of its commit are outdated. */
  rowHashes?: FileRecord;
}

/** Rows of a task to process: of a sample or a retry, only some of those in its slices. */
export function plannedRows({ rows, onlyRows = rows }: Pick<Task, "rows" | "onlyRows">): number {
  return onlyRows;
}

/** The work of a generation: frozen, hashed, serializable. */
export interface Plan extends RunGeneration {
  format: 1;
  /** Version of Sluice that made it. */
  software: string;
  /** ISO 8601. */
  createdAt: string;
  /**
   * The job as planned; paths absolute, no secrets. In a `RunContext`, the present job is in its
   * place.
   */
  job: JobSpec;
  /** In a retry: the rows that it sends again. */
  where?: string;
  /** In a retry: where rows are read from, the input itself or a file of corrected rows. */
  reread?: "input" | { file: string };
  /** Seed of sampling, given or drawn. */
  seed: number;
  tasks: { count: number; file: FileRecord; index: FileRecord };
  /** Rows that will get an outcome. */
  rows: number;
  input: InputSummary;
  /** The order in which the rows of a task are sent. */
  order: RowOrder;
  /** With one merged file: its name, beside the run directory. */
  mergedFile: string | null;
  /** With results in files by input or by row: their list. */
  outputs?: PlannedOutputs;
  /** The columns of results that follow from the input, if results are tables. */
  columns?: readonly Column[];
  /** With a file of failed rows: its name, beside the run directory. */
  errorFile?: string;
  /**
   * In a retry that found the input changed: all tasks of the run from now on. `input`, `outputs`
   * and `columns` then belong to this input.
   */
  whole?: WholeRun;
}

export interface WholeRun {
  tasks: Plan["tasks"];
  rows: number;
  /** Digits in the names of parts, unchanged from the run's own plan. */
  partDigits: number;
}

/** The result files of a run, one for each input file or for each row. */
export interface PlannedOutputs {
  /** `OutputFile`s, a line for each input file, in the order of the input. */
  list: FileRecord;
  files: number;
  /** The base of their paths: the run directory, the folder beside it, or another place. */
  base: "run" | "outside" | (string & {});
  isPerRow: boolean;
  /** True if some are tables, each with all columns. */
  needsColumns: boolean;
}

export interface InputSummary {
  files: number;
  bytes: number;
  rows: number;
  rowsPerTask: number;
  /** The first tasks of a given number may have one row, or batch, more. */
  longerTasks?: LongerTasks;
  /** Rows of the largest task, if it has more: what cannot be cut is in one task. */
  largestTaskRows?: number;
  /** Files that are compressed as a whole; each is in one task. */
  compressedFiles?: number;
  /** Text files whose lines are rows because of their extension, not because of the job. */
  lineFiles?: number;
  /** Files of folders that are skipped: their extensions are not those of a format. */
  leftOutFiles?: number;
  /** Files of globs and folders that are skipped: runs made them. */
  leftOutResults?: number;
  /** Digest of paths and sizes. */
  digest: string;
  /** Digest of modification times: only a hint that a checksum is worthwhile. */
  modifiedDigest: string;
}

/** Tasks on storage, as lines with a table of their offsets. */
export interface StoredTasks {
  count: number;
  rows: number;
  file: FileRecord;
  index: FileRecord;
}

const pendingPath = "_sluice/tasks.pending";

/**
 * Writes the tasks of a plan: one JSON line each, and beside them a table of 8-byte little-endian
 * offsets, so that one read finds any task. Memory stays flat.
 */
export async function storeTasks(
  storage: Storage,
  generation: number,
  uniqueId: string,
  tasks: AsyncIterable<Task> | Iterable<Task>,
): Promise<StoredTasks> {
  const draft = new TasksDraft(storage, `${pendingPath}-${uniqueId}`);
  const digest = sha256Stream();
  const offsets: number[] = [];
  let bytes = 0;
  let rows = 0;
  try {
    for await (const task of tasks) {
      const line = Buffer.from(`${JSON.stringify(task)}\n`);
      offsets.push(bytes);
      bytes += line.length;
      rows += plannedRows(task);
      digest.update(line);
      await draft.write(line);
    }
  } catch (error) {
    await draft.abort();
    throw error;
  }
  const sha256 = digest.digest("hex");
  const path = tasksPathOf(generation, sha256);
  const table = Buffer.alloc(offsets.length * 8);
  for (const [at, offset] of offsets.entries()) table.writeBigUInt64LE(BigInt(offset), at * 8);
  const [, index] = await Promise.all([
    draft.become(path),
    storeFile(storage, `${path}.offsets`, table),
  ]);
  return { count: offsets.length, rows, file: { path, sha256, bytes }, index };
}

/**
 * Tasks without a file name yet, which depends on their checksum: a few are kept in memory, many
 * are written.
 */
class TasksDraft {
  readonly #storage: Storage;
  readonly #path: string;
  #writer: Writer | undefined;
  #held: Buffer[] = [];
  #heldBytes = 0;

  constructor(storage: Storage, path: string) {
    this.#storage = storage;
    this.#path = path;
  }

  async write(line: Buffer): Promise<void> {
    this.#held.push(line);
    this.#heldBytes += line.length;
    if (this.#heldBytes <= maxWholeTasksBytes) return;
    this.#writer ??= await this.#storage.writer(this.#path);
    await this.#writer.write(this.#taken());
  }

  /** Publishes them as the file at `path`. */
  async become(path: string): Promise<void> {
    if (!this.#writer) return await this.#storage.replace(path, this.#taken());
    try {
      await this.#writer.write(this.#taken());
      await this.#writer.close();
    } catch (error) {
      await this.abort();
      throw error;
    }
    await this.#storage.publish(this.#path, path);
    await this.#storage.remove(this.#path);
  }

  async abort(): Promise<void> {
    await this.#writer?.abort();
  }

  #taken(): Buffer {
    const lines = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    return lines;
  }
}

/** Reads the plan of a generation. `NOT_A_RUN` if the directory holds none. */
export async function readPlan(storage: Storage, generation = 1): Promise<Plan> {
  const plan = await readJson<Plan>(storage, planPathOf(generation));
  if (!plan) throw new SluiceError("NOT_A_RUN", storage.location);
  if (plan.format !== 1) {
    throw new SluiceError("NOT_A_RUN", `${storage.location} has plan format ${plan.format}`);
  }
  return plan;
}

/** Digits in the names of a run's parts. */
export function partDigits({ whole, tasks }: Pick<Plan, "whole" | "tasks">): number {
  return whole?.partDigits ?? partWidth(tasks.count);
}

/** @throws SluiceError `PLAN_TOO_LARGE`. */
export function assertPlanFits(plan: Plan): void {
  const { length } = recordBytes(plan);
  if (length <= limits.maxPlanBytes) return;
  throw new SluiceError("PLAN_TOO_LARGE", `${length} bytes, ${limits.maxPlanBytes} allowed`);
}

export function readOptionsOf({ input }: JobSpec): ReadOptions {
  return { maxLineBytes: Math.max(...input.map((source) => source.maxLineBytes)), sources: input };
}

/** Finds any task of a plan with one small read. */
export class TaskTable {
  readonly #plan: Plan;
  readonly #storage: Storage;
  #readers: Promise<[RandomReader, RandomReader]> | undefined;

  constructor(storage: Storage, plan: Plan) {
    this.#plan = plan;
    this.#storage = storage;
  }

  async task(task: number): Promise<Task> {
    const { file, count } = this.#plan.tasks;
    if (task < 0 || task >= count) throw new SluiceError("USAGE", `there is no task ${task}`);
    this.#readers ??= this.#open().catch((error: unknown) => {
      // The next task tries again.
      this.#readers = undefined;
      throw error;
    });
    const [lines, table] = await this.#readers;
    const entry = Buffer.from(await table.read(task * 8, 16));
    const start = Number(entry.readBigUInt64LE(0));
    const end = entry.length >= 16 ? Number(entry.readBigUInt64LE(8)) : file.bytes;
    return JSON.parse(Buffer.from(await lines.read(start, end - start)).toString()) as Task;
  }

  async close(): Promise<void> {
    // Whoever asks for a task hears of a failed open.
    const readers = await this.#readers?.catch(() => []);
    this.#readers = undefined;
    await Promise.all(readers?.map((reader) => reader.close()) ?? []);
  }

  async #open(): Promise<[RandomReader, RandomReader]> {
    const { file, index } = this.#plan.tasks;
    const [lines, table] = await Promise.allSettled([
      openRecord(this.#storage, file),
      openRecord(this.#storage, index),
    ]);
    if (lines.status === "fulfilled" && table.status === "fulfilled") {
      return [lines.value, table.value];
    }
    for (const it of [lines, table]) if (it.status === "fulfilled") await it.value.close();
    throw lines.status === "rejected" ? lines.reason : (table as PromiseRejectedResult).reason;
  }
}

/** A small file is read as a whole: each read may be a round trip. */
async function openRecord(storage: Storage, { path, bytes }: FileRecord): Promise<RandomReader> {
  if (bytes > maxWholeTasksBytes) return await storage.open(path);
  return bytesReader(await storage.read(path));
}

export async function* rowsOfTask(
  openFile: OpenFile,
  job: JobSpec,
  { slices, firstRow, only }: Task,
): AsyncGenerator<InputRow> {
  const wanted = only === undefined ? undefined : new Set(indexesIn(only));
  for await (const rows of readRows(slices, firstRow, openFile, readOptionsOf(job))) {
    for (const row of rows) if (!wanted || wanted.has(row.index)) yield row;
  }
}

/** Every task of a plan in order, read as one stream. */
export async function* eachTask(
  storage: Storage,
  { tasks }: Pick<Plan, "tasks">,
): AsyncGenerator<Task> {
  const reader = await openRecord(storage, tasks.file);
  try {
    for await (const { text } of linesOf(reader)) yield JSON.parse(text) as Task;
  } finally {
    await reader.close();
  }
}

/** The present job, with the parts that the stored plan decides. */
export function effectiveJob(plan: Plan, current: JobSpec): JobSpec {
  return {
    ...current,
    shard: plan.job.shard,
    output: plan.job.output,
    // The job asks the same, but may write out other defaults, which servers would get.
    generation: plan.job.generation,
  };
}

/**
 * The plan of a run with all tasks in their present state: its own, unless a retry found rows
 * appended to the input, or corrected in it.
 *
 * @param standing the generation whose plan has them; a manifest names it.
 */
export async function standingPlan(storage: Storage, standing = 1): Promise<Plan> {
  const first = await readPlan(storage);
  if (standing === 1) return first;
  const { whole, input, outputs, columns } = await readPlan(storage, standing);
  const { tasks, rows } = whole!;
  return {
    ...first,
    whole: whole!,
    tasks,
    rows,
    input,
    ...(outputs && { outputs }),
    ...(columns && { columns }),
  };
}
