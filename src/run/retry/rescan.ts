import type { InputFile } from "../../data/inputs.ts";
import type { OpenFile } from "../../data/open-files.ts";
import type { Slice } from "../../data/row.ts";
import { readRows, scanAgain } from "../../data/slices.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import { limits } from "../../foundation/limits.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import { RowHashes } from "../attempt/row-hashes.ts";
import type { JobSpec } from "../job/schema.ts";
import { idFieldOf } from "../openai-batch/batch-lines.ts";
import { eachTask, type InputSummary, type Plan, readOptionsOf, type Task } from "../plan/plan.ts";
import type { FoundInput } from "../plan/scan-input.ts";

export interface Rescan {
  /** The planned tasks, each with its present slices. */
  tasks: Task[];
  /** Planned tasks with changed content: the slices concerned, at their present places. */
  changed: Map<number, Slice[]>;
  /** Tasks of appended rows: after the planned ones of a file, and in new files. */
  appended: Task[];
}

interface Rescanning {
  job: JobSpec;
  planned: Pick<InputSummary, "rowsPerTask">;
  openFile: OpenFile;
}

/**
 * Reads the whole input, cut like the tasks of a run. Memory grows with the number of tasks, not of
 * rows.
 *
 * @param planned all tasks of the run.
 * @throws SluiceError `INPUT_CHANGED` if a file is gone or has fewer rows than planned,
 *   `UNSUPPORTED` if tasks do not cover the input.
 */
export async function rescanInput(
  planned: readonly Task[],
  found: FoundInput,
  rescanning: Rescanning,
): Promise<Rescan> {
  const { job } = rescanning;
  if (job.sample !== undefined) {
    throw new SluiceError("UNSUPPORTED", "the run took a sample of its input", {
      hint: "start a new run with another output",
    });
  }
  const byFile = Map.groupBy(
    planned.flatMap(({ slices }) => slices),
    ({ file }) => file,
  );
  assertPresent(byFile.keys(), found.files);
  let rest = restOfLimit(job, planned);
  const now = new Map<string, { slices: Slice[]; changed: ReadonlySet<Slice> }>();
  const appended: Slice[] = [];
  for (const file of found.files) {
    const before = byFile.get(file.path) ?? [];
    const slices = await slicesNow(file, before, rest, rescanning);
    const again = slices.slice(0, before.length);
    const changed = await changedSlices(file, before, again, rescanning);
    now.set(file.path, { slices: again, changed });
    for (const slice of slices.slice(before.length)) {
      appended.push(slice);
      rest -= slice.rows;
    }
  }
  return { ...replaced(planned, now), appended: tasksOf(appended, planned, rescanning) };
}

/** Rows that the job's limit leaves for appended rows. */
function restOfLimit({ limit }: JobSpec, planned: readonly Task[]): number {
  if (limit === undefined) return Number.POSITIVE_INFINITY;
  return Math.max(0, limit - planned.reduce((sum, { rows }) => sum + rows, 0));
}

function assertPresent(paths: Iterable<string>, files: readonly InputFile[]): void {
  const present = new Set(files.map(({ path }) => path));
  for (const path of paths) {
    if (!present.has(path)) throw changedInput("the file is gone", { file: path });
  }
  if (present.size === files.length) return;
  const twice = files.find(({ path }, at) => files.findIndex((it) => it.path === path) !== at)!;
  throw new SluiceError("UNSUPPORTED", "the input names this file twice", {
    file: shownPath(twice.path),
    hint: "start a new run with another output",
  });
}

async function slicesNow(
  file: InputFile,
  before: readonly Slice[],
  rest: number,
  { job, planned, openFile }: Rescanning,
): Promise<Slice[]> {
  const counts = before.map(({ rows }) => rows);
  const known = counts.reduce((sum, rows) => sum + rows, 0);
  if (known + rest === 0) return [];
  const { rowsPerTask } = planned;
  const limit = known + rest;
  const options = { ...readOptionsOf(job), rowsPerTask, openFile };
  const id = before[0]?.id ?? idFieldOf(job.input[file.source]!);
  const slices: Slice[] = [];
  let rows = 0;
  for await (const slice of scanAgain(file, counts, {
    ...options,
    ...(Number.isFinite(limit) && { limit }),
  })) {
    slices.push(id === undefined ? slice : { ...slice, id });
    rows += slice.rows;
  }
  const differs = before.findIndex((slice, at) => slices[at]?.rows !== slice.rows);
  if (differs < 0) return slices;
  const detail = `it has ${rows} rows, and ${known} were planned`;
  throw changedInput(rows === known ? "rows moved between its parts" : detail, {
    file: file.path,
  });
}

async function changedSlices(
  file: InputFile,
  before: readonly Slice[],
  now: readonly Slice[],
  { openFile }: Rescanning,
): Promise<Set<Slice>> {
  const changed = new Set<Slice>();
  for (const [at, slice] of before.entries()) {
    if (slice.sha256 === now[at]!.sha256) continue;
    // A last line without a line break gets one when rows are appended.
    const isSame =
      at === before.length - 1 && (await endsAsBefore(file, slice, now[at]!, openFile));
    if (!isSame) changed.add(now[at]!);
  }
  return changed;
}

async function endsAsBefore(
  { path }: InputFile,
  before: Slice,
  now: Slice,
  openFile: OpenFile,
): Promise<boolean> {
  const added = now.end - before.end;
  if (now.start !== before.start || added < 1 || added > 2) return false;
  const reader = await openFile(path);
  try {
    const lineBreak = Buffer.from(await reader.read(before.end, added)).toString();
    if (!/^\r?\n$/.test(lineBreak)) return false;
    const digest = sha256Stream();
    for (let offset = before.start; offset < before.end; offset += limits.readChunkBytes) {
      const length = Math.min(limits.readChunkBytes, before.end - offset);
      digest.update(await reader.read(offset, length));
    }
    return digest.digest("hex") === before.sha256;
  } finally {
    await reader.close();
  }
}

function replaced(
  planned: readonly Task[],
  now: ReadonlyMap<string, { slices: Slice[]; changed: ReadonlySet<Slice> }>,
): Pick<Rescan, "tasks" | "changed"> {
  const at = new Map<string, number>();
  const changed = new Map<number, Slice[]>();
  const tasks = planned.map((task) => {
    const slices = task.slices.map(({ file }) => {
      const next = at.get(file) ?? 0;
      at.set(file, next + 1);
      const { slices, changed: others } = now.get(file)!;
      const slice = slices[next]!;
      if (others.has(slice)) changed.set(task.task, [...(changed.get(task.task) ?? []), slice]);
      return slice;
    });
    return { ...task, slices };
  });
  return { tasks, changed };
}

/** Tasks after the planned ones; small slices share one. */
function tasksOf(
  slices: readonly Slice[],
  planned: readonly Task[],
  { planned: { rowsPerTask } }: Rescanning,
): Task[] {
  const last = planned.at(-1);
  const tasks: Task[] = [];
  let firstRow = last ? last.firstRow + last.rows : 0;
  let open: Task | undefined;
  for (const slice of slices) {
    if (!open || open.rows + slice.rows > rowsPerTask) {
      open = { task: planned.length + tasks.length, firstRow, rows: 0, slices: [] };
      tasks.push(open);
    }
    open.slices.push(slice);
    open.rows += slice.rows;
    firstRow += slice.rows;
  }
  return tasks;
}

/** @throws SluiceError `INPUT_CHANGED` if the input is not that of the run's tasks. */
export async function assertUnchanged(
  storage: Storage,
  run: Plan,
  found: FoundInput,
  { job, openFile }: Pick<Rescanning, "job" | "openFile">,
): Promise<void> {
  const { input } = run;
  if (found.digest === input.digest && found.modifiedDigest === input.modifiedDigest) return;
  const rescanning = { job, planned: input, openFile };
  const { changed, appended } = await rescanInput(
    await Array.fromAsync(eachTask(storage, run)),
    found,
    rescanning,
  );
  const [slice] = [...[...changed.values()].flat(), ...appended.flatMap(({ slices }) => slices)];
  if (!slice) return;
  throw changedInput(changed.size > 0 ? "its content changed" : "rows were appended", {
    file: slice.file,
    line: slice.firstLine,
  });
}

export function changedInput(
  detail: string,
  { file, ...place }: { file: string; line?: number; hint?: string },
): SluiceError {
  return new SluiceError("INPUT_CHANGED", detail, { file: shownPath(file), ...place });
}

export async function rowHashesOf(
  { slices, firstRow }: Task,
  { job, openFile }: Pick<Rescanning, "job" | "openFile">,
): Promise<Buffer> {
  const hashes = new RowHashes();
  for await (const rows of readRows(slices, firstRow, openFile, readOptionsOf(job))) {
    for (const row of rows) hashes.add(row);
  }
  return hashes.toBytes();
}
