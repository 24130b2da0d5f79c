import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import { formatFor } from "./formats/registry.ts";
import type { InputFile } from "./inputs.ts";
import { type OpenFile, openInOrder, openLocalFile } from "./open-files.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Files looked into, spread evenly over all, and bytes of each. */
const maxSampledFiles = 8;
const sampleBytes = limits.readChunkBytes;

/**
 * About how many rows the files hold, from the starts of a few of them. Exact where it could read
 * all of them whole; a file that cannot be understood counts as one row.
 *
 * @throws SluiceError `INPUT_UNREADABLE` where a file cannot be opened.
 */
export async function estimateRows(
  files: readonly InputFile[],
  openFile: OpenFile = openLocalFile,
): Promise<number> {
  const count = Math.min(files.length, maxSampledFiles);
  const sampled = Array.from(
    { length: count },
    (_, at) => files[Math.floor((at * files.length) / count)]!,
  );
  const paths = sampled.map((file) => file.path);
  let rows = 0;
  let bytes = 0;
  let at = 0;
  for await (const reader of openInOrder(paths, openFile, "INPUT_UNREADABLE")) {
    const sample = await countStart(reader, sampled[at++]!);
    rows += sample.rows;
    bytes += sample.bytes;
  }
  const totalBytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return bytes === 0 ? 0 : Math.round((totalBytes * rows) / bytes);
}

/** Rows that begin and end within the file's first bytes, and the bytes they take. */
async function countStart(
  reader: RandomReader,
  file: InputFile,
): Promise<{ rows: number; bytes: number }> {
  const start: RandomReader = {
    bytes: Math.min(reader.bytes, sampleBytes),
    read: (offset, length) => reader.read(offset, length),
    close: async () => {},
  };
  const rule = { firstCutRows: 1, everyRows: 1, maxLineBytes: limits.maxLineBytes };
  let rows = 0;
  let end = 0;
  try {
    for await (const range of formatFor(file.path, file.format).scan(start, file.path, rule)) {
      rows++;
      end = range.end;
    }
  } catch (error) {
    // The start of an array never closes; the scan of the whole file will tell whether it does.
    if (!(error instanceof SluiceError) || error.code !== "INPUT_UNREADABLE") throw error;
    if (rows === 0) return { rows: 1, bytes: reader.bytes };
    return { rows, bytes: end };
  }
  return { rows, bytes: start.bytes };
}
