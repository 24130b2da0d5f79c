import { SluiceError } from "../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../foundation/json.ts";
import { nearest } from "../foundation/suggest.ts";
import { compressionOf, contentOf } from "./decompressing.ts";
import type { CutRule, SliceRange, SourceOptions } from "./formats/format.ts";
import { rowsOfRange } from "./formats/range-cutter.ts";
import { formatFor } from "./formats/registry.ts";
import type { RowFormat } from "./formats/row-format.ts";
import type { InputFile } from "./inputs.ts";
import { type OpenFile, openInOrder } from "./open-files.ts";
import type { InputRow, Slice } from "./row.ts";
import type { RowCheck } from "./row-schema.ts";
import type { RandomReader } from "./storage/storage.ts";

export { estimateRows } from "./row-estimate.ts";

/** The input of one task. */
export interface TaskSlices {
  slices: Slice[];
  /** Stable index of the task's first row. */
  firstRow: number;
  /** Rows of all slices together. */
  rows: number;
}

/** The first tasks of an input, if they have more rows than the others. */
export interface LongerTasks {
  tasks: number;
  rows: number;
}

export interface ScanOptions {
  rowsPerTask: number;
  /** The first tasks, if they have another number of rows. */
  longerTasks?: LongerTasks | undefined;
  maxLineBytes: number;
  /** Read only this many rows; files after them are not read. Default: all. */
  limit?: number;
  /** Whether tasks may exceed `rowsPerTask`, to end where the file's own blocks do. */
  atOwnBorders?: boolean;
  /** The options of each of the job's inputs, in order. */
  sources?: readonly SourceOptions[];
  openFile: OpenFile;
  /** Called during reading with the rows and bytes cut so far. */
  onProgress?: (rows: number, bytes: number) => void;
}

/**
 * Cuts the files in order into tasks of `rowsPerTask` rows. The last task may have fewer, and a
 * task may span files. A file that cannot be cut, such as a compressed one, lies in one task: that
 * task may have more rows, and the one before it fewer. One streaming pass; memory does not grow.
 *
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export async function* scanSlices(
  files: readonly InputFile[],
  options: ScanOptions,
): AsyncGenerator<TaskSlices> {
  const { rowsPerTask, longerTasks, openFile } = options;
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  if (limit === 0) return;
  let number = 0;
  const wanted = () => (number < (longerTasks?.tasks ?? 0) ? longerTasks!.rows : rowsPerTask);
  let task: TaskSlices = { slices: [], firstRow: 0, rows: 0 };
  const finished = () => {
    const whole = task;
    number++;
    task = { slices: [], firstRow: whole.firstRow + whole.rows, rows: 0 };
    return whole;
  };
  let bytes = 0;
  let fileNumber = 0;
  for await (const reader of openInOrder(files, openFile, "INPUT_UNREADABLE")) {
    const file = files[fileNumber++]!;
    const counted = countingReader(reader, (length) => {
      bytes += length;
      options.onProgress?.(task.firstRow + task.rows, bytes);
    });
    const taken = task.firstRow + task.rows;
    const longer = longerTasks && {
      ranges: Math.max(0, longerTasks.tasks - number - 1),
      rows: longerTasks.rows,
    };
    const cut = { firstCutRows: wanted() - task.rows, everyRows: rowsPerTask, longer };
    for await (const slice of slicesOf(file, counted, options, cut, taken)) {
      if (task.rows > 0 && task.rows + slice.rows > wanted()) yield finished();
      task.slices.push(slice);
      task.rows += slice.rows;
      if (task.rows >= wanted()) yield finished();
    }
    if (task.firstRow + task.rows >= limit) break;
  }
  if (task.rows > 0) yield task;
}

/**
 * Cuts a file again the way it was cut before: into slices with these numbers of rows, and then the
 * rows appended since into slices of `rowsPerTask`. A file that cannot be cut is one slice.
 *
 * @param options `limit`: rows of this file.
 */
export async function* scanAgain(
  file: InputFile,
  counts: readonly number[],
  options: Omit<ScanOptions, "longerTasks" | "atOwnBorders" | "onProgress">,
): AsyncGenerator<Slice> {
  const { rowsPerTask: everyRows, openFile } = options;
  const cut = { firstCutRows: everyRows, everyRows, counts };
  for await (const reader of openInOrder([file], openFile, "INPUT_UNREADABLE")) {
    yield* slicesOf(file, reader, options, cut, 0);
  }
}

/** The slices of one file. The first slice fills a task that already has `taken` rows. */
async function* slicesOf(
  file: InputFile,
  reader: RandomReader,
  options: ScanOptions,
  rows: Pick<CutRule, "firstCutRows" | "everyRows" | "longer" | "counts">,
  taken: number,
): AsyncGenerator<Slice> {
  const { maxLineBytes, sources = [] } = options;
  const { path, format: name, etag, id, dataset, source, output, form } = file;
  const isRead = sources[source]?.columns !== undefined || sources[source]?.schema !== undefined;
  const own = { etag, output, id, dataset, form, source: isRead ? source : undefined };
  const format = formatFor(path, name, form);
  const content = contentOf(reader, path, format, "INPUT_UNREADABLE", form);
  const isWhole = content !== reader;
  const cut = {
    maxLineBytes,
    ...(isWhole ? uncut : rows),
    limit: (options.limit ?? Number.POSITIVE_INFINITY) - taken,
    atOwnBorders: options.atOwnBorders === true && options.limit === undefined,
    columns: sources[source]?.columns,
  };
  try {
    let isFirst = true;
    for await (const range of cutFile(format, content, path, cut)) {
      const slice = { file: path, format: name, ...range, ...own };
      const asked = isFirst && isRead ? sources[source] : undefined;
      if (asked) await assertColumns(asked, format, content, slice, maxLineBytes);
      isFirst = false;
      yield slice;
    }
  } finally {
    if (isWhole) await content.close();
  }
}

/** Rows from which the fields of a format without columns are learned. */
const sampledRows = 200;

/**
 * Refuses a field that the job names and the file does not have. The file's own columns decide, or
 * else its first rows; these may lack a field that `schema` has as a property.
 *
 * @param slice the first slice of the file.
 * @throws SluiceError `COLUMN_UNKNOWN` with the nearest name.
 */
async function assertColumns(
  { columns = [], schema = {} }: SourceOptions,
  format: RowFormat,
  reader: RandomReader,
  slice: Slice,
  maxLineBytes: number,
): Promise<void> {
  const { file } = slice;
  const own = await format.columns?.(reader, file);
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  const asked = own
    ? [...columns, ...required.filter((name) => typeof name === "string")]
    : columns.filter((name) => !Object.hasOwn(properties, name));
  if (asked.length === 0) return;
  const names = own
    ? new Set(own.map(({ name }) => name))
    : await sampledNames(format, reader, slice, maxLineBytes);
  const missing = asked.find((name) => !names.has(name));
  if (missing === undefined || names.size === 0) return;
  const suggestion = nearest(missing, [...names]);
  const some = [...names].slice(0, 12).join(", ");
  const known = `it has ${some}${names.size > 12 ? ", …" : ""}`;
  const hint = suggestion === undefined ? known : `did you mean ${suggestion}? Else: ${known}`;
  throw new SluiceError("COLUMN_UNKNOWN", JSON.stringify(missing), { file, hint });
}

/** Names of the fields in the first rows. */
async function sampledNames(
  format: RowFormat,
  reader: RandomReader,
  slice: Slice,
  maxLineBytes: number,
): Promise<Set<string>> {
  const names = new Set<string>();
  let count = 0;
  for await (const rows of format.read(reader, slice, 0, { maxLineBytes })) {
    for (const { value } of rows) {
      if (count++ >= sampledRows) return names;
      for (const name of Object.keys(value ?? {})) names.add(name);
    }
  }
  return names;
}

const uncut = { firstCutRows: Number.POSITIVE_INFINITY, everyRows: Number.POSITIVE_INFINITY };

interface FileCut extends CutRule {
  limit: number;
}

/** The ranges of one file. The last one ends after `limit` rows. */
async function* cutFile(
  format: RowFormat,
  reader: RandomReader,
  file: string,
  cut: FileCut,
): AsyncGenerator<SliceRange> {
  const { limit, maxLineBytes, columns } = cut;
  const rule = { ...cut, firstCutRows: Math.min(cut.firstCutRows, limit) };
  let rows = 0;
  let ranges = 0;
  let next = rowsOfRange(rule, 0);
  for await (const range of format.scan(reader, file, rule)) {
    yield range;
    rows += range.rows;
    next = rowsOfRange(rule, ++ranges);
    if (rows >= limit || limit - rows < next) break;
  }
  if (rows >= limit || limit - rows >= next || next === Infinity) return;
  // The next range would be too long, but ranges have a single length: a second pass cuts here.
  const shorter = { maxLineBytes, firstCutRows: rows, everyRows: limit - rows, columns };
  let skipped = false;
  for await (const range of format.scan(reader, file, shorter)) {
    if (skipped) return yield range;
    skipped = true;
  }
}

function countingReader(reader: RandomReader, onRead: (bytes: number) => void): RandomReader {
  return {
    bytes: reader.bytes,
    async read(offset, length) {
      const data = await reader.read(offset, length);
      onRead(data.length);
      return data;
    },
    close: () => reader.close(),
  };
}

/** How to read rows. */
export interface ReadOptions {
  /** The same value as when the slices were cut. */
  maxLineBytes: number;
  /** The options of each of the job's inputs, in order. */
  sources?: readonly SourceOptions[];
  /** False if only `raw` is needed: rows may then lack `value` and `error`. Default true. */
  parse?: boolean;
}

/**
 * The rows of a task in order, in arrays of bounded size. `firstRow` is the index of the first row.
 *
 * @throws SluiceError `INPUT_CHANGED` if a slice no longer has its checksum.
 * @example
 * for await (const rows of readRows(task.slices, task.firstRow, openFile, { maxLineBytes: 1e6 })) {
 *   for (const row of rows) console.log(row.index, row.raw);
 * }
 */
export async function* readRows(
  slices: readonly Slice[],
  firstRow: number,
  openFile: OpenFile,
  options: ReadOptions,
): AsyncGenerator<InputRow[]> {
  const { maxLineBytes, sources = [], parse = true } = options;
  const files = slices.map(({ file: path, etag, end, form }) => {
    // Offsets in a file that is decompressed or decoded count bytes of its content.
    return compressionOf(path) || form?.encoding ? { path, etag } : { path, etag, end };
  });
  let index = firstRow;
  let number = 0;
  for await (const reader of openInOrder(files, openFile, "INPUT_CHANGED")) {
    const slice = slices[number++]!;
    index = slice.firstRow ?? index;
    const { file, form } = slice;
    const format = formatFor(file, slice.format, form);
    const content = contentOf(reader, file, format, "INPUT_CHANGED", form);
    const { columns, schema } = sources[slice.source ?? -1] ?? {};
    const reading = { maxLineBytes, parse, columns, schema };
    const check = schema && (await checkOf(schema));
    try {
      for await (const read of format.read(content, slice, index, reading)) {
        const rows = check ? read.map((row) => checked(row, check)) : read;
        if (slice.dataset !== undefined) for (const row of rows) row.dataset = slice.dataset;
        yield rows;
      }
    } finally {
      if (content !== reader) await content.close();
    }
    index += slice.rows;
  }
}

const checks = new WeakMap<JsonObject, RowCheck>();

/** The check against a schema, made once: a task may have thousands of slices. */
async function checkOf(schema: JsonObject): Promise<RowCheck> {
  const known = checks.get(schema);
  if (known !== undefined) return known;
  const { rowCheck } = await import("./row-schema.ts");
  const made = rowCheck(schema);
  checks.set(schema, made);
  return made;
}

function checked(row: InputRow, check: RowCheck): InputRow {
  const error = check(row);
  if (!error) return row;
  const { value: _, ...others } = row;
  return { ...others, error };
}
