import type { Column } from "../../data/columns.ts";
import { resultFormatOf } from "../../data/formats/result-format.ts";
import type { Slice } from "../../data/row.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { type ExactRow, parseExactly } from "../../foundation/exact-json.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { begunOutputsPath, outputsPathOf } from "../directory/layout.ts";
import { recordedLines } from "../directory/lines.ts";
import { suffixed } from "../job/paths.ts";
import { eachTask, type Plan, type Task } from "../plan/plan.ts";
import { failedRowsOf } from "../retry/cut-rows.ts";
import { endOf, nextLines, plannedIndexes, readLineCounts } from "../retry/merge-task.ts";
import type { RunContext } from "../run-context.ts";
import type { Manifest, ManifestTask } from "../seal/manifest.ts";
import { EncodedFile } from "./encoded-file.ts";
import { HashedFile, writeWhole } from "./hashed-file.ts";
import type { OutputFile } from "./output-files.ts";
import { seenAs } from "./output-path.ts";
import { outputStorage, plannedOutputFiles } from "./plan-outputs.ts";

/** A result file as a seal found it. */
export interface WholeOutput extends FileRecord {
  /** The JSON lines in it. */
  results: number;
}

/** What result files are made from. */
export interface OutputSource {
  /** All tasks in their present state. */
  tasks: readonly ManifestTask[];
  columns: readonly Column[];
  /** Called right before files appear; throws to prevent it. */
  assertLeads(): Promise<void>;
}

/** The destinations of result files, and the tools to make them. */
interface Writing {
  storage: Storage;
  /** The plan with all tasks of the run. */
  first: Plan;
  /** Rooted at the base of their paths. */
  target: Storage;
  columns: readonly Column[];
  /** The list of the complete ones. */
  list: HashedFile;
  assertLeads(): Promise<void>;
  files: number;
}

const filesAtOnce = 32;

/**
 * Writes the results of a run into files by input or by row, from the lines of its tasks, and a
 * list of them. Each file appears whole. The result is the same whoever writes it, and however
 * often.
 *
 * @param first the plan with all tasks of the run.
 */
export async function writeOutputs(
  context: RunContext,
  first: Plan,
  { tasks, columns, assertLeads }: OutputSource,
): Promise<NonNullable<Manifest["outputs"]>> {
  const { storage, plan } = context;
  const { base, isPerRow } = first.outputs!;
  const target = outputStorage(base, context);
  const list = await HashedFile.open(storage, outputsPathOf(plan.generation));
  const writing: Writing = { storage, first, target, columns, list, assertLeads, files: 0 };
  const write = async () => {
    if (isPerRow) return await writeByRow(allRows(storage, first, tasks), writing);
    // Rows appended to a file come after those of all files.
    if (first.whole) return await writeEachInput(tasks, writing);
    return await writeByInput(allRows(storage, first, tasks), writing);
  };
  const file = await writeWhole(list, write);
  return { list: file, files: writing.files };
}

async function* allRows(
  storage: Storage,
  first: Plan,
  entries: readonly ManifestTask[],
): AsyncGenerator<ResultRow> {
  for await (const task of eachTask(storage, first)) {
    yield* resultRows(storage, task, entries[task.task]!);
  }
}

/** A file for each input file, even without a result. */
async function writeByInput(rows: AsyncGenerator<ResultRow>, writing: Writing): Promise<void> {
  const { storage, first } = writing;
  const { limit, sample } = first.job;
  const isWhole = limit === undefined && sample === undefined;
  let next = await rows.next();
  try {
    for await (const output of plannedOutputFiles(storage, first)) {
      // An unreadable input file gets no file.
      if (!isWhole && (next.done || next.value.slice.file !== output.file)) continue;
      const file = await openOutput(output, output.path, writing);
      const whole = await writeWhole(file, async () => {
        while (!next.done && next.value.slice.file === output.file) {
          for (const line of next.value.lines) await file.add(line);
          next = await rows.next();
        }
        await writing.assertLeads();
      });
      await note({ ...whole, results: file.rows }, writing);
    }
  } finally {
    await rows.return(undefined);
  }
}

/** The same if the rows of a file are not contiguous. */
async function writeEachInput(entries: readonly ManifestTask[], writing: Writing): Promise<void> {
  const { storage, first } = writing;
  const tasksOf = new Map<string, Task[]>();
  for await (const task of eachTask(storage, first)) {
    for (const file of new Set(task.slices.map((slice) => slice.file))) {
      tasksOf.set(file, [...(tasksOf.get(file) ?? []), task]);
    }
  }
  for await (const output of plannedOutputFiles(storage, first)) {
    const tasks = tasksOf.get(output.file) ?? [];
    if (tasks.length === 0 && first.job.limit !== undefined) continue;
    const file = await openOutput(output, output.path, writing);
    const whole = await writeWhole(file, async () => {
      for (const task of tasks) {
        for await (const { slice, lines } of resultRows(storage, task, entries[task.task]!)) {
          if (slice.file === output.file) for (const line of lines) await file.add(line);
        }
      }
      await writing.assertLeads();
    });
    await note({ ...whole, results: file.rows }, writing);
  }
}

async function writeByRow(rows: AsyncGenerator<ResultRow>, writing: Writing): Promise<void> {
  const { storage, first } = writing;
  const outputs = new Map<string, OutputFile>();
  for await (const output of plannedOutputFiles(storage, first)) outputs.set(output.file, output);
  const names = new RowNames();
  const begun = await storage.appender(begunOutputsPath);
  let some: { row: ResultRow; output: OutputFile; path: string }[] = [];
  const writeSome = async () => {
    if (some.length === 0) return;
    // A killed process's half line must not spoil the next one.
    const lines = some.map(({ path }) => `\n${JSON.stringify({ path })}`);
    await begun.append(Buffer.from(lines.join("")));
    await writing.assertLeads();
    const written = some.map(async ({ row, output, path }) => {
      const file = await openOutput(output, path, writing);
      const whole = await writeWhole(file, async () => {
        for (const line of row.lines) await file.add(line);
      });
      return { ...whole, results: file.rows };
    });
    some = [];
    for (const whole of await Promise.all(written)) await note(whole, writing);
  };
  try {
    for await (const row of rows) {
      if (row.lines.length === 0) continue;
      const output = outputs.get(row.slice.file)!;
      some.push({ row, output, path: names.take(output.path, row) });
      if (some.length >= filesAtOnce) await writeSome();
    }
    await writeSome();
    await begun.sync();
  } finally {
    await begun.close();
  }
}

async function note(whole: WholeOutput, writing: Writing): Promise<void> {
  writing.files++;
  await writing.list.write(Buffer.from(`${JSON.stringify(whole)}\n`));
}

function openOutput(
  { isObject }: OutputFile,
  path: string,
  { target, columns }: Writing,
): Promise<EncodedFile> {
  return EncodedFile.open(target, path, { format: resultFormatOf(path)!, columns, isObject });
}

/** Longest id in the name of a file: file systems allow 255 bytes for the whole name. */
const maxIdBytes = 120;

/** Names the files of rows: each name is unique, whatever the ids are. */
export class RowNames {
  readonly #taken = new Set<string>();

  /** @param pattern a path with `{index}` or `{id}`. */
  take(pattern: string, row: ResultRow): string {
    const index = String(row.index);
    const path = pattern.replaceAll("{index}", index).replaceAll("{id}", () => nameOf(row));
    // Names with an index are unique.
    if (pattern.includes("{index}")) return path;
    let free = path;
    while (this.#taken.has(seenAs(free))) free = suffixed(free, `-${index}`);
    this.#taken.add(seenAs(free));
    return free;
  }
}

/** The row's id as a part of a file name; without an id, its index. */
function nameOf({ index, slice, lines }: ResultRow): string {
  const { [slice.id ?? ""]: id } = parseExactly(lines[0]!) as ExactRow;
  if (id === null || id === undefined || typeof id === "object") return String(index);
  const safe = String(id)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: no file system takes them well
    .replace(/[/\\:*?"<>|\u0000-\u001f]/g, "_")
    .slice(0, maxIdBytes);
  const short = Buffer.from(safe)
    .subarray(0, maxIdBytes)
    .toString()
    .replace(/\uFFFD+$/, "");
  return /^\.*$/.test(short) ? `_${short}` : short;
}

interface ResultRow {
  index: number;
  /** Its place in the input. */
  slice: Slice;
  /** Empty if it failed or was left out. */
  lines: string[];
}

/** The rows of a task in input order, with the result lines of each. */
async function* resultRows(
  storage: Storage,
  task: Task,
  entry: ManifestTask,
): AsyncGenerator<ResultRow> {
  const failed = new Set((await failedRowsOf(storage, entry)).map(({ index }) => index));
  const counts = await readLineCounts(storage, entry.lineCounts);
  const all = recordedLines(storage, entry.source!);
  const sliceOf = slicesByRow(task);
  try {
    for (const index of plannedIndexes(task)) {
      const count = failed.has(index) ? 0 : (counts.get(index) ?? 1);
      yield { index, slice: sliceOf(index), lines: await nextLines(all, count) };
    }
    await endOf(all);
  } finally {
    await all.return(undefined);
  }
}

function slicesByRow({ slices, firstRow }: Task): (index: number) => Slice {
  let at = 0;
  let end = firstRow + slices[0]!.rows;
  return (index) => {
    while (index >= end) end += slices[++at]!.rows;
    return slices[at]!;
  };
}
