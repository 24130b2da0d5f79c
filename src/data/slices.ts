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
import { type RowCheck, rowCheck } from "./row-schema.ts";
import type { RandomReader } from "./storage/storage.ts";

export { estimateRows } from "./row-estimate.ts";

/** What one task reads. */
export interface TaskSlices {
  slices: Slice[];
  /** Stable index of its first row. */
  firstRow: number;
  /** Rows of all slices. */
  rows: number;
}

/** The first tasks of an input, where they have more rows than the others. */
export interface LongerTasks {
  tasks: number;
  rows: number;
}

export interface ScanOptions {
  rowsPerTask: number;
  /** So many of the first tasks have so many rows each instead. */
  longerTasks?: LongerTasks | undefined;
  maxLineBytes: number;
  /** Take only so many rows; files after them are not read. Default: all. */
  limit?: number;
  /** Tasks may hold more rows than asked, so that they end at borders of the files' own. */
  atOwnBorders?: boolean;
  /** What the job says of each of its inputs, in order. */
  sources?: readonly SourceOptions[];
  openFile: OpenFile;
  /** Told, as reading goes on, how many rows were cut off and bytes read so far. */
  onProgress?: (rows: number, bytes: number) => void;
}

/**
 * Cuts the files, one after another, into tasks of `rowsPerTask` rows; the last may have fewer, and
 * a task may span files. What cannot be cut, as a compressed file, lies in one task whole: that one
 * may have more rows, and the one before it fewer. One streaming pass with flat memory.
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
 * Cuts a file as it was cut before: into slices of so many rows each, and what was appended since
 * into slices of `rowsPerTask`. A file that cannot be cut is one slice.
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

/** The slices of one file, of which the first begins after `taken` rows of others. */
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
  const own = {
    ...(etag !== undefined && { etag }),
    ...(output !== undefined && { output }),
    ...(id !== undefined && { id }),
    ...(dataset !== undefined && { dataset }),
    ...(form !== undefined && { form }),
    ...(isRead && { source }),
  };
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

/** Rows by which the fields of a format without columns are known. */
const sampledRows = 200;

/**
 * Refuses fields that a job names and a file does not have: by what the file says of its columns,
 * else by its first rows. These may lack a field that `schema` has as a property.
 *
 * @param slice the first of the file.
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

/** Names of the fields of the first rows. */
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

/** The ranges of one file, the last of which ends after `limit` rows of it. */
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
  // The next range would be too long, and a rule has one length only: a second pass cuts there.
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

/** How rows are read. */
export interface ReadOptions {
  /** As when the slices were cut. */
  maxLineBytes: number;
  /** What the job says of each of its inputs, in order. */
  sources?: readonly SourceOptions[];
  /** False where only `raw` is needed: rows may then lack `value` and `error`. Default true. */
  parse?: boolean;
}

/**
 * The rows of a task in order, in arrays of bounded size; `firstRow` is the index of the first.
 *
 * @throws SluiceError `INPUT_CHANGED` where a slice no longer has its checksum.
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
    // Places in a compressed file, or one that is decoded, are of its content.
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
    const check = schema && checkOf(schema);
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

/** The check of a schema, made once: a task may have thousands of slices. */
function checkOf(schema: JsonObject): RowCheck {
  const known = checks.get(schema) ?? rowCheck(schema);
  checks.set(schema, known);
  return known;
}

function checked(row: InputRow, check: RowCheck): InputRow {
  const error = check(row);
  if (!error) return row;
  const { value: _, ...others } = row;
  return { ...others, error };
}
