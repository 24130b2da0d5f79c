import { basename, dirname } from "node:path";
import { ColumnTally } from "../data/columns.ts";
import {
  needsColumns,
  openEncoder,
  type ResultFormat,
  resultFormatNames,
  resultFormatOf,
} from "../data/formats/result-format.ts";
import { absoluteLocation } from "../data/storage/open.ts";
import { SluiceError } from "../foundation/errors.ts";
import { type ExactRow, parseExactly } from "../foundation/exact-json.ts";
import { linesOfChunks } from "../foundation/lines.ts";
import { nearest } from "../foundation/suggest.ts";
import { EncodedFile } from "../run/output/encoded-file.ts";
import { HashedFile, writeWhole } from "../run/output/hashed-file.ts";
import { assertTable } from "../run/output/own-columns.ts";
import { counted } from "../terminal/quantities.ts";
import { type CliIo, write } from "./io.ts";
import type { RunTarget } from "./run-target.ts";

/** The form of results, according to the options. */
interface ExportOptions {
  format?: string;
  output?: string;
  overwrite?: boolean;
}

const lineFeed = 10;
/** Lines that an encoder of stdout gets at once. */
const batchLines = 500;

/** The format of the options, named or by the file's extension. */
export function exportFormat({ format, output }: ExportOptions, io: CliIo): ResultFormat {
  if (format !== undefined && !resultFormatNames.some((name) => name === format)) {
    const meant = nearest(format, resultFormatNames);
    const hint = `${meant ? `did you mean ${meant}? ` : ""}there are ${resultFormatNames.join(", ")}`;
    throw new SluiceError("USAGE", `--format ${format} is not known`, { hint });
  }
  const ofName = output === undefined ? undefined : resultFormatOf(output);
  const name = (format ?? ofName?.name ?? "jsonl") as ResultFormat["name"];
  if (name === "parquet" && output === undefined && io.isOutputTerminal) {
    throw new SluiceError("USAGE", "Parquet is not for a terminal", {
      hint: "name a file with --output, or pipe it into a program",
    });
  }
  const compression = name === "parquet" ? undefined : ofName?.compression;
  return { name, ...(compression && { compression }) };
}

/**
 * Writes results in a format, to stdout or to a file that appears whole.
 *
 * @param read reads them as JSON lines; called twice for formats with columns.
 */
export async function exportResults(
  read: () => AsyncIterable<Uint8Array>,
  format: ResultFormat,
  options: ExportOptions,
  { dependencies }: RunTarget,
  io: CliIo,
): Promise<void> {
  const { rows, columns } = needsColumns(format)
    ? await tableOf(read())
    : { rows: Number.POSITIVE_INFINITY, columns: [] };
  const lines = first(linesOfChunks(read()), rows);
  if (options.output === undefined) return await print(lines, { format, columns }, io);
  const path = absoluteLocation(io.workingDirectory, options.output);
  const storage = dependencies.openStorage(dirname(path));
  if (!options.overwrite && (await storage.stat(basename(path)))) {
    throw new SluiceError("OUTPUT_OCCUPIED", "the file exists", {
      file: path,
      hint: "name another --output, or replace it with --overwrite",
    });
  }
  const name = basename(path);
  let written = 0;
  if (format.name === "jsonl") {
    const { compressedChunks } = await import("../data/formats/compressing.ts");
    // Bytes stay unchanged: a failed row may not be text at all.
    const bytes = (async function* () {
      for await (const chunk of read()) {
        yield chunk;
        for (const byte of chunk) if (byte === lineFeed) written++;
      }
    })();
    const { compression } = format;
    await writeWhole(await HashedFile.open(storage, name), async (file) => {
      const chunks = compression ? compressedChunks(bytes, compression) : bytes;
      for await (const chunk of chunks) await file.write(chunk);
    });
  } else {
    await writeWhole(await EncodedFile.open(storage, name, { format, columns }), async (file) => {
      for await (const line of lines) await file.add(line);
      written = file.rows;
    });
  }
  io.stderr.write(`${counted(written, "row")}: ${path}\n`);
}

async function tableOf(chunks: AsyncIterable<Uint8Array>) {
  const tally = new ColumnTally();
  let rows = 0;
  for await (const line of linesOfChunks(chunks)) {
    tally.add(parseExactly(line) as ExactRow);
    rows++;
  }
  return { rows, columns: assertTable(tally.columns()) };
}

/** Fields that a live run adds after its columns were read are left out. */
async function* first(lines: AsyncIterable<string>, count: number): AsyncGenerator<string> {
  let left = count;
  for await (const line of lines) {
    if (left-- <= 0) return;
    yield line;
  }
}

async function print(
  lines: AsyncIterable<string>,
  { format, columns }: { format: ResultFormat; columns: ReturnType<ColumnTally["columns"]> },
  io: CliIo,
): Promise<void> {
  const encoder = await openEncoder(format, { columns });
  const put = async (pieces: readonly Uint8Array[]) => {
    for (const piece of pieces) await write(io, piece);
  };
  let batch: string[] = [];
  for await (const line of lines) {
    batch.push(line);
    if (batch.length < batchLines) continue;
    await put(await encoder.add(batch));
    batch = [];
  }
  if (batch.length > 0) await put(await encoder.add(batch));
  await put(await encoder.end());
}
