import type { SliceRange } from "./formats/format.ts";
import { formatFor } from "./formats/registry.ts";
import type { RowFormat } from "./formats/row-format.ts";
import type { InputFile } from "./inputs.ts";
import { type OpenFile, openInOrder, openLocalFile } from "./open-files.ts";
import type { InputRow, Slice } from "./row.ts";
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

export interface ScanOptions {
  rowsPerTask: number;
  maxLineBytes: number;
  /** Take only so many rows; files after them are not read. Default: all. */
  limit?: number;
  /** Default: files of this machine. */
  openFile?: OpenFile;
  /** Told, as reading goes on, how many rows were cut off and bytes read so far. */
  onProgress?: (rows: number, bytes: number) => void;
}

/**
 * Cuts the files, one after another, into tasks of exactly `rowsPerTask` rows; the last may have
 * fewer, and a task may span files. One streaming pass with flat memory.
 *
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export async function* scanSlices(
  files: readonly InputFile[],
  options: ScanOptions,
): AsyncGenerator<TaskSlices> {
  const { rowsPerTask, maxLineBytes, openFile = openLocalFile } = options;
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  let task: TaskSlices = { slices: [], firstRow: 0, rows: 0 };
  let bytes = 0;
  let fileNumber = 0;
  const paths = files.map((file) => file.path);
  for await (const reader of openInOrder(paths, openFile, "INPUT_UNREADABLE")) {
    const { path, format: name, id, dataset } = files[fileNumber++]!;
    const own = { ...(id !== undefined && { id }), ...(dataset !== undefined && { dataset }) };
    const counted = countingReader(reader, (length) => {
      bytes += length;
      options.onProgress?.(task.firstRow + task.rows, bytes);
    });
    const cut = {
      maxLineBytes,
      firstCutRows: rowsPerTask - task.rows,
      everyRows: rowsPerTask,
      limit: limit - task.firstRow - task.rows,
    };
    for await (const range of cutFile(formatFor(path, name), counted, path, cut)) {
      task.slices.push({ file: path, format: name, ...range, ...own });
      task.rows += range.rows;
      if (task.rows < rowsPerTask) continue;
      yield task;
      task = { slices: [], firstRow: task.firstRow + task.rows, rows: 0 };
    }
    if (task.firstRow + task.rows >= limit) break;
  }
  if (task.rows > 0) yield task;
}

interface FileCut {
  maxLineBytes: number;
  firstCutRows: number;
  everyRows: number;
  limit: number;
}

/** The ranges of one file, the last of which ends after `limit` rows of it. */
async function* cutFile(
  format: RowFormat,
  reader: RandomReader,
  file: string,
  cut: FileCut,
): AsyncGenerator<SliceRange> {
  const { limit, everyRows, maxLineBytes } = cut;
  const rule = { maxLineBytes, everyRows, firstCutRows: Math.min(cut.firstCutRows, limit) };
  let rows = 0;
  for await (const range of format.scan(reader, file, rule)) {
    yield range;
    rows += range.rows;
    if (limit - rows < everyRows) break;
  }
  if (rows >= limit || limit - rows >= everyRows) return;
  // The next range would be too long, and a rule has one length only: a second pass cuts there.
  const shorter = { maxLineBytes, firstCutRows: rows, everyRows: limit - rows };
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
  const { maxLineBytes, parse = true } = options;
  const paths = slices.map((slice) => slice.file);
  let index = firstRow;
  let number = 0;
  for await (const reader of openInOrder(paths, openFile, "INPUT_CHANGED")) {
    const slice = slices[number++]!;
    const format = formatFor(slice.file, slice.format);
    for await (const rows of format.read(reader, slice, index, maxLineBytes, parse)) {
      if (slice.dataset !== undefined) for (const row of rows) row.dataset = slice.dataset;
      yield rows;
    }
    index += slice.rows;
  }
}
