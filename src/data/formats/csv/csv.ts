import { SluiceError } from "../../../foundation/errors.ts";
import { limits } from "../../../foundation/limits.ts";
import type { Column } from "../../columns.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { chunksOf, verifiedChunks } from "../chunks.ts";
import type { CutRule, RowReadOptions, SliceRange } from "../format.ts";
import { ChunkCutter } from "../range-cutter.ts";
import type { RowFormat } from "../row-format.ts";
import { csvDialect, type Dialect, tsvDialect } from "./dialect.ts";
import { type Header, readHeader } from "./header.ts";
import { loadPapa } from "./parse-fields.ts";
import { RecordReader } from "./record-reader.ts";
import { RecordScanner, withWholeLineEnds } from "./record-scanner.ts";

/**
 * CSV with a header. Each record is a row of texts, or of the types in `schema`. Quoted fields may
 * hold delimiters, quotes and line ends. A record whose fields do not match the header is a row
 * with an error.
 *
 * @param chunkBytes bytes per read; only tests set it.
 */
export function csvFormat(chunkBytes: number = limits.readChunkBytes): RowFormat {
  return formatOf(csvDialect, chunkBytes);
}

/** CSV with tabs between fields. */
export function tsvFormat(): RowFormat {
  return formatOf(tsvDialect, limits.readChunkBytes);
}

/** One of these formats with another delimiter. */
export function delimitedFormat(name: string, delimiter: string): RowFormat {
  const dialect = name === tsvDialect.name ? tsvDialect : csvDialect;
  return formatOf({ ...dialect, delimiter }, limits.readChunkBytes);
}

function formatOf(dialect: Dialect, chunkBytes: number): RowFormat {
  return {
    name: dialect.name,
    extensions: dialect.extensions,
    scan: (reader, file, rule) => scanRecords(reader, { file, rule, dialect, chunkBytes }),
    read: (reader, slice, firstIndex, options) =>
      readRecords(reader, { slice, firstIndex, options, dialect, chunkBytes }),
    columns: async (reader, file) => {
      const header = await readHeader(reader, file, dialect);
      return (header?.names ?? []).map(
        (name): Column => ({ name, type: { kind: "string" }, nullable: false }),
      );
    },
  };
}

interface RecordScan {
  file: string;
  rule: CutRule;
  dialect: Dialect;
  chunkBytes: number;
}

async function* scanRecords(
  reader: RandomReader,
  { file, rule, dialect, chunkBytes }: RecordScan,
): AsyncGenerator<SliceRange> {
  const header = await readHeader(reader, file, dialect);
  if (!header) return;
  const { bytes: start, lastLine: firstLine, sha256 } = header;
  const cutter = new ChunkCutter(rule);
  const at = { start, firstLine, delimiter: dialect.delimiter.charCodeAt(0) };
  const scanner = new RecordScanner(file, at, {
    start: (offset, line) => cutter.start(offset, line),
    end() {},
  });
  const own = { header: { bytes: start, sha256 } };
  const withHeader = (range: SliceRange) => (range.start === 0 ? range : { ...range, ...own });
  const chunks = chunksOf(reader, file, { start: 0, end: reader.bytes }, chunkBytes);
  for await (const chunk of withWholeLineEnds(chunks)) {
    cutter.begin(chunk);
    scanner.push(behindHeader(chunk, cutter.base, header));
    yield* cutter.endChunk().map(withHeader);
  }
  scanner.end();
  yield* cutter.end().map(withHeader);
}

/** The part of a chunk at offset `base` that comes after the header. */
function behindHeader(chunk: Buffer, base: number, header: Header): Buffer {
  return chunk.subarray(Math.max(0, Math.min(chunk.length, header.bytes - base)));
}

async function plannedHeader(
  reader: RandomReader,
  slice: Slice,
  dialect: Dialect,
): Promise<Header> {
  const { file } = slice;
  try {
    const header = await readHeader(reader, file, dialect, slice.header);
    if (header) return header;
  } catch (cause) {
    if (!(cause instanceof SluiceError) || cause.code !== "INPUT_UNREADABLE") throw cause;
    throw new SluiceError("INPUT_CHANGED", "its header is another one", { file, cause });
  }
  throw new SluiceError("INPUT_CHANGED", "its header is gone", { file });
}

interface RecordsToRead {
  slice: Slice;
  firstIndex: number;
  options: RowReadOptions;
  dialect: Dialect;
  chunkBytes: number;
}

async function* readRecords(
  reader: RandomReader,
  { slice, firstIndex, options, dialect, chunkBytes }: RecordsToRead,
): AsyncGenerator<InputRow[]> {
  const header = await plannedHeader(reader, slice, dialect);
  const papa = await loadPapa();
  const records = new RecordReader({ header, slice, firstIndex, options, dialect, papa });
  let base = slice.start;
  for await (const chunk of withWholeLineEnds(verifiedChunks(reader, slice, chunkBytes))) {
    yield* records.push(slice.start === 0 ? behindHeader(chunk, base, header) : chunk);
    base += chunk.length;
  }
  yield* records.end();
}
