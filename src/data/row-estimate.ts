import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import { contentOf } from "./decompressing.ts";
import { formatFor, isUncut } from "./formats/registry.ts";
import type { RowFormat } from "./formats/row-format.ts";
import type { InputFile } from "./inputs.ts";
import { type OpenFile, openInOrder } from "./open-files.ts";
import { bytesReader } from "./storage/bytes-reader.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Files to sample, spread evenly over all, and bytes of each. */
const maxSampledFiles = 8;
const sampleBytes = limits.readChunkBytes;
/** Most content that is read from the start of a compressed file. */
const maxStartContentBytes = 16 * 1024 * 1024;

/**
 * About how many rows the files have, from the starts of a few of them. The number is exact if all
 * files could be read whole. A file that cannot be understood counts as one row.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if a file cannot be opened.
 */
export async function estimateRows(
  files: readonly InputFile[],
  openFile: OpenFile,
): Promise<number> {
  const count = Math.min(files.length, maxSampledFiles);
  const sampled = Array.from(
    { length: count },
    (_, at) => files[Math.floor((at * files.length) / count)]!,
  );
  let oneRowFiles = 0;
  let rows = 0;
  let bytes = 0;
  let at = 0;
  for await (const reader of openInOrder(sampled, openFile, "INPUT_UNREADABLE")) {
    const file = sampled[at++]!;
    const sample = await sampleOf(reader, file);
    if (sample.rows === 1 && sample.bytes === file.bytes) oneRowFiles++;
    rows += sample.rows;
    bytes += sample.bytes;
  }
  // If each file is one row, sizes say nothing.
  if (oneRowFiles === count) return files.length;
  const totalBytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return bytes === 0 ? rows : Math.round((totalBytes * rows) / bytes);
}

/** Rows that were counted, and the bytes that they take in the file. */
interface Sample {
  rows: number;
  bytes: number;
}

async function sampleOf(reader: RandomReader, file: InputFile): Promise<Sample> {
  const { path, form } = file;
  const format = formatFor(path, file.format, form);
  if (format.rowCount) {
    return { rows: await countOf(() => format.rowCount!(reader, path)), bytes: reader.bytes };
  }
  if (!isUncut(file)) return await countStart(reader, path, format);
  const startBytes = Math.min(reader.bytes, sampleBytes);
  const content = await startOfContent(reader, file, format, startBytes);
  if (content.length === 0) return { rows: 1, bytes: reader.bytes };
  const { rows, bytes } = await countStart(bytesReader(content), path, format);
  return { rows, bytes: (startBytes * bytes) / content.length };
}

/** The rows in the first bytes of a file that cannot be cut, as far as they can be decoded. */
async function startOfContent(
  reader: RandomReader,
  { path, form }: InputFile,
  format: RowFormat,
  startBytes: number,
): Promise<Buffer> {
  const start: RandomReader = {
    bytes: startBytes,
    read: (offset, length) => reader.read(offset, Math.min(length, startBytes - offset)),
    close: async () => {},
  };
  const content = contentOf(start, path, format, "INPUT_UNREADABLE", form);
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    while (bytes < maxStartContentBytes) {
      const piece = Buffer.from(await content.read(bytes, sampleBytes / 16));
      if (piece.length === 0) break;
      pieces.push(piece);
      bytes += piece.length;
    }
  } catch (error) {
    // The content ends in the middle, because only the start was read.
    if (!isUnreadable(error)) throw error;
  } finally {
    await content.close();
  }
  return Buffer.concat(pieces);
}

async function countOf(count: () => Promise<number>): Promise<number> {
  try {
    return await count();
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return 1;
  }
}

/** The rows that begin and end within the file's first bytes, and the bytes that they take. */
async function countStart(reader: RandomReader, path: string, format: RowFormat): Promise<Sample> {
  const start: RandomReader = {
    bytes: Math.min(reader.bytes, sampleBytes),
    read: (offset, length) => reader.read(offset, length),
    close: async () => {},
  };
  const rule = { firstCutRows: 1, everyRows: 1, maxLineBytes: limits.maxLineBytes };
  let rows = 0;
  let end = 0;
  try {
    for await (const range of format.scan(start, path, rule)) {
      rows++;
      end = range.end;
    }
  } catch (error) {
    // A JSON array or a quoted text may not close within the start. The scan of the whole file
    // finds out whether it closes at all.
    if (!isUnreadable(error)) throw error;
    if (rows === 0) return { rows: 1, bytes: reader.bytes };
    return { rows, bytes: end };
  }
  return { rows, bytes: start.bytes };
}

function isUnreadable(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "INPUT_UNREADABLE";
}
