import { type Column, ColumnTally } from "../../data/columns.ts";
import { endingOf, needsColumns, type ResultFormat } from "../../data/formats/result-format.ts";
import type { InputFile, InputSource } from "../../data/inputs.ts";
import type { InputRow, Slice } from "../../data/row.ts";
import { readRows, scanSlices } from "../../data/slices.ts";
import { realLocation } from "../../data/storage/open.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type ExactRow, parseExactly } from "../../foundation/exact-json.ts";
import { digestOf } from "../../foundation/hashing.ts";
import { limits } from "../../foundation/limits.ts";
import { shareOf, shares } from "../../foundation/shares.ts";
import type { RunDependencies } from "../dependencies.ts";
import { assertTable } from "../output/own-columns.ts";
import { columnsOfFiles } from "../output/planned-columns.ts";
import { withoutRuns } from "../plan/run-files.ts";
import {
  abandon,
  assertFree,
  type ChunkFile,
  type ChunkRecord,
  chunkPath,
  claim,
  complete,
  filesOf,
  fromShare,
  isWhole,
  metadataPath,
  readRecord,
  sharePath,
} from "./chunk-folder.ts";
import { type ChunkForm, ChunkWriter } from "./chunk-writer.ts";

export interface ChunksRequest {
  sources: readonly InputSource[];
  /** The base of relative input paths. */
  baseDirectory: string;
  /** The folder of the chunks: an absolute path, or an address such as `s3://bucket/chunks`. */
  output: string;
  size: ChunkSize;
  /** Number of lists of shares to write; 0 = none. */
  workers: number;
  format: ResultFormat;
  /** Fields that rows keep, in this order; default: all. */
  columns?: readonly string[];
  /** Longest line of an input; a longer one is refused. */
  maxLineBytes: number;
  /** Replaces the chunks in the folder. */
  overwrite: boolean;
  onProgress?(progress: ChunksProgress): void;
}

/** Progress of a cut: counted rows, or written chunks of all. */
export type ChunksProgress = { countedRows: number } | { writtenChunks: number; chunks: number };

export interface WrittenChunks {
  /** False if the same chunks were there already, so that nothing was done. */
  isNew: boolean;
  output: string;
  /** Path of the list of chunks. */
  metadata: string;
  inputFiles: number;
  /** Files under globs and folders that runs or this cut made: they are not input. */
  leftOutResults: number;
  rows: number;
  bytes: number;
  chunks: number;
  smallestRows: number;
  largestRows: number;
  /** Chunks without a row, if there are fewer rows than chunks. */
  emptyChunks: number;
  workers: number;
}

/**
 * Cuts inputs into chunks: files with equal numbers of rows for workers, a list of all of them, and
 * a list for each worker. The input is read twice, the first time to count its rows. Formats
 * without columns are read a third time if the chunks are tables. Memory stays flat.
 *
 * A repeated call with the same request does nothing, or continues a killed one.
 *
 * @throws SluiceError `USAGE` for more than `limits.maxChunks` files of a kind, `OUTPUT_OCCUPIED`
 *   if other files have names of chunks, `INPUT_UNREADABLE` for a row that these chunks cannot
 *   hold, `INPUT_CHANGED`, and errors of the search for inputs. No written file stays behind then.
 */
export async function writeChunks(
  request: ChunksRequest,
  { openStorage, inputs }: Pick<RunDependencies, "openStorage" | "inputs">,
): Promise<WrittenChunks> {
  if (request.workers > limits.maxChunks) {
    throw new SluiceError("USAGE", `lists for more than ${limits.maxChunks} workers`);
  }
  const output = { path: `${request.output}/` };
  const { sources, baseDirectory } = request;
  const { files, leftOut } = await withoutRuns(sources, baseDirectory, output, inputs);
  const storage = openStorage(request.output);
  const asked = digestOf(facts(request, files));
  const standing = await standingChunks(storage, asked, request);
  const shown = { output: storage.location, inputFiles: files.length, leftOutResults: leftOut };
  if (standing?.isComplete && !request.overwrite) {
    return { isNew: false, ...shown, ...summaryOf(storage, standing) };
  }
  const input = { files, openFile: inputs.open };
  const { slices, rows } = await scanned(input, request);
  const sizes = chunkRows(rows, request.size);
  const record: ChunkRecord = {
    version: 1,
    request: asked,
    isComplete: false,
    ending: endingOf(request.format),
    chunks: sizes.length,
    workers: request.workers,
    files: [],
  };
  if (standing) await assertOutside(files, storage, [...filesOf(record), ...filesOf(standing)]);
  const form = await formOf({ ...input, slices }, request);
  await claim(storage, record, standing);
  try {
    record.files = await written(storage, { ...input, slices }, { request, sizes, form });
    await writeLists(storage, record);
  } catch (error) {
    await abandon(storage, record);
    throw error;
  }
  const whole = { ...record, isComplete: true };
  await complete(storage, whole);
  return { isNew: true, ...shown, ...summaryOf(storage, whole) };
}

/** The facts that decide which files are written, with which content. */
function facts(request: ChunksRequest, files: readonly InputFile[]) {
  const { size, workers, format, columns = null, maxLineBytes } = request;
  const inputs = files.map(({ path, bytes, modifiedMs, etag = null, format: name }) => [
    path,
    bytes,
    modifiedMs,
    etag,
    name,
  ]);
  return { size: { ...size }, workers, format: { ...format }, columns, maxLineBytes, inputs };
}

/**
 * The folder's record, if it may be replaced or is the requested one.
 *
 * @throws SluiceError `OUTPUT_OCCUPIED` if it must not be replaced.
 */
async function standingChunks(
  storage: Storage,
  asked: string,
  { overwrite }: ChunksRequest,
): Promise<ChunkRecord | undefined> {
  const record = await readRecord(storage);
  await assertFree(storage, record);
  if (!record || overwrite) return record;
  const isSame = record.request === asked;
  if (isSame && (!record.isComplete || (await isWhole(storage, record)))) return record;
  const what = isSame
    ? "these chunks are there, some not as they were written"
    : `${record.chunks} other chunks are there`;
  throw new SluiceError("OUTPUT_OCCUPIED", `${what}: ${storage.location}`, {
    hint: "--overwrite removes them, and nothing else; or name another --output",
  });
}

interface Input {
  files: readonly InputFile[];
  openFile: RunDependencies["inputs"]["open"];
}

interface CutInput extends Input {
  slices: readonly Slice[];
}

async function scanned(
  { files, openFile }: Input,
  { columns, maxLineBytes, sources, onProgress }: ChunksRequest,
): Promise<{ slices: Slice[]; rows: number }> {
  const slices: Slice[] = [];
  let rows = 0;
  const scan = scanSlices(files, {
    rowsPerTask: limits.maxTaskRows,
    atOwnBorders: true,
    maxLineBytes,
    sources: sources.map(() => ({ columns })),
    openFile,
    onProgress: (countedRows) => onProgress?.({ countedRows }),
  });
  for await (const task of scan) {
    slices.push(...task.slices);
    rows += task.rows;
  }
  return { slices, rows };
}

/** A chunk that is replaced while it is read, under whatever name, would lose rows. */
async function assertOutside(
  files: readonly InputFile[],
  storage: Storage,
  names: readonly string[],
): Promise<void> {
  const folder = await realLocation(storage.location);
  const written = new Set(names.map((name) => `${folder}/${name}`));
  for (const { path } of files) {
    if (!written.has(await realLocation(path))) continue;
    const hint = "name another --output: inputs are not replaced";
    throw new SluiceError("USAGE", `${path} is an input, and would be written`, { hint });
  }
}

/** Formats whose rows are lines of the file, each line JSON. */
const lineFormats = ["jsonl", "openai-batch"];

async function formOf(input: CutInput, request: ChunksRequest): Promise<ChunkForm> {
  const { format, columns } = request;
  const isCopied =
    format.name === "jsonl" &&
    columns === undefined &&
    input.files.every((file) => lineFormats.includes(file.format));
  const known = needsColumns(format) ? await columnsOf(input, request) : [];
  return { encoding: { format, columns: known }, ending: endingOf(format), isCopied };
}

async function columnsOf(input: CutInput, request: ChunksRequest): Promise<readonly Column[]> {
  const own = await columnsOfFiles(input.files, () => request.columns, input.openFile);
  if (own) return assertTable(own);
  const tally = new ColumnTally();
  for await (const rows of rowsOf(input, request, true)) {
    // A faulty row is reported when it is written.
    for (const { raw, error } of rows) if (!error) tally.add(parseExactly(raw) as ExactRow);
  }
  return assertTable(tally.columns());
}

function rowsOf(
  { slices, openFile }: CutInput,
  { maxLineBytes, sources, columns }: ChunksRequest,
  parse: boolean,
): AsyncGenerator<InputRow[]> {
  const reading = { maxLineBytes, sources: sources.map(() => ({ columns })), parse };
  return readRows(slices, 0, openFile, reading);
}

async function written(
  storage: Storage,
  input: CutInput,
  { request, sizes, form }: { request: ChunksRequest; sizes: readonly number[]; form: ChunkForm },
): Promise<ChunkFile[]> {
  const writer = new ChunkWriter(storage, sizes, form);
  try {
    for await (const rows of rowsOf(input, request, !form.isCopied)) {
      await writer.add(rows);
      request.onProgress?.({ writtenChunks: writer.writtenChunks, chunks: sizes.length });
    }
    return await writer.end();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

/** The lists of shares, and last the list of all chunks: if it is there, everything is. */
async function writeLists(
  storage: Storage,
  { chunks, workers, ending }: ChunkRecord,
): Promise<void> {
  const paths = Array.from({ length: chunks }, (_, index) => chunkPath(index, ending));
  const put = (path: string, lines: readonly string[]) =>
    storage.replace(path, Buffer.from(lines.map((line) => `${line}\n`).join("")));
  for (let index = 0; index < workers; index++) {
    const share = shareOf(chunks, index, workers);
    const own = share ? paths.slice(share.first, share.last + 1) : [];
    await put(sharePath(index), own.map(fromShare));
  }
  await put(metadataPath, paths);
}

function summaryOf(storage: Storage, { files, chunks, workers }: ChunkRecord) {
  const sum = (key: "rows" | "bytes") => files.reduce((all, file) => all + file[key], 0);
  return {
    metadata: `${storage.location}/${metadataPath}`,
    rows: sum("rows"),
    bytes: sum("bytes"),
    chunks,
    smallestRows: files.reduce((least, { rows }) => Math.min(least, rows), Infinity),
    largestRows: files.reduce((most, { rows }) => Math.max(most, rows), 0),
    emptyChunks: files.filter(({ rows }) => rows === 0).length,
    workers,
  };
}

/** The size of chunks: their number, or the rows of each. Exactly one is given. */
export type ChunkSize = { chunks: number; rows?: never } | { rows: number; chunks?: never };

/**
 * Rows of each chunk, in order. With a given number of chunks, their sizes differ by at most one
 * row. With a given number of rows, all chunks but the last have that many.
 *
 * @throws SluiceError `USAGE` for more than `limits.maxChunks` chunks.
 * @example
 * chunkRows(2014, { chunks: 200 }); // 14 chunks of 11 rows, then 186 of 10
 * chunkRows(2014, { rows: 1000 }); // [1000, 1000, 14]
 */
export function chunkRows(total: number, size: ChunkSize): number[] {
  const count = size.chunks ?? Math.max(1, Math.ceil(total / size.rows));
  if (count > limits.maxChunks) {
    throw new SluiceError("USAGE", `${count} chunks are more than ${limits.maxChunks}`, {
      hint: "ask for fewer --shards, or for more --rows in each",
    });
  }
  if (size.chunks !== undefined) return shares(total, count);
  return Array.from({ length: count }, (_, index) =>
    Math.min(size.rows, total - index * size.rows),
  );
}
