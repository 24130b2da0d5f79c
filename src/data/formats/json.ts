import { isUtf8 } from "node:buffer";
import { SluiceError } from "../../foundation/errors.ts";
import { isBlank } from "../../foundation/json-members.ts";
import { limits } from "../../foundation/limits.ts";
import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";
import { assertNoUtf16, chunksOf, markBytes, verifiedChunks } from "./chunks.ts";
import type { CutRule, SliceRange } from "./format.ts";
import { ElementScanner } from "./json-elements.ts";
import { findList, fromList } from "./json-list.ts";
import { faultyRow, parseRow } from "./parse-row.ts";
import { ChunkCutter } from "./range-cutter.ts";
import { RecordHolder } from "./record-holder.ts";
import { RowBatch } from "./row-batch.ts";
import type { RowFormat } from "./row-format.ts";
import { selecting } from "./selecting.ts";

/**
 * JSON: a file that is one array has its elements as rows; any other file is one row. A broken
 * object is a row with an error, since other files may be right. An array that is broken between
 * its elements fails as a whole: its number of rows is unknown.
 *
 * @param chunkBytes bytes per read; only tests set it.
 * @param keys that lead to the list of rows; default: the file itself is the list.
 */
export function jsonFormat(
  chunkBytes: number = limits.readChunkBytes,
  keys?: readonly string[],
): RowFormat {
  const isPart = keys !== undefined;
  const listOf = async (reader: RandomReader, file: string) =>
    isPart ? fromList(reader, await findList(reader, file, keys, chunkBytes)) : reader;
  return selecting({
    name: "json",
    extensions: [".json"],
    async *scan(reader, file, rule) {
      yield* scanElements(await listOf(reader, file), { file, rule, chunkBytes, isPart });
    },
    async *read(reader, slice, firstIndex, { maxLineBytes }) {
      const list = slice.start === 0 ? await listOf(reader, slice.file) : reader;
      yield* readElements(list, { slice, firstIndex, maxLineBytes, chunkBytes, isPart });
    },
  });
}

interface ElementScan {
  file: string;
  rule: CutRule;
  chunkBytes: number;
  /** The list is only a part of the file. */
  isPart: boolean;
}

async function* scanElements(
  reader: RandomReader,
  { file, rule, chunkBytes, isPart }: ElementScan,
): AsyncGenerator<SliceRange> {
  const cutter = new ChunkCutter(rule);
  const scanner = new ElementScanner(
    { file, start: 0, firstLine: 1, isPart },
    { start: (offset, line) => cutter.start(offset, line), end() {} },
  );
  const range = { start: 0, end: reader.bytes };
  for await (const chunk of chunksOf(reader, file, range, chunkBytes)) {
    if (cutter.base === 0) assertNoUtf16(chunk, file);
    cutter.begin(chunk);
    scanner.push(withoutMark(chunk, cutter.base));
    yield* cutter.endChunk();
  }
  scanner.end();
  yield* cutter.end();
}

interface ElementReading {
  slice: Slice;
  firstIndex: number;
  maxLineBytes: number;
  chunkBytes: number;
  isPart: boolean;
}

async function* readElements(
  reader: RandomReader,
  reading: ElementReading,
): AsyncGenerator<InputRow[]> {
  const { slice } = reading;
  const elements = new ElementReader(reading);
  let base = slice.start;
  for await (const chunk of verifiedChunks(reader, slice, reading.chunkBytes)) {
    elements.push(withoutMark(chunk, base), base);
    base += chunk.length;
    yield* elements.rows();
  }
  elements.end();
  yield* elements.rows();
}

/** Replaces a byte order mark by spaces, so that offsets stay those of the file. */
function withoutMark(chunk: Buffer, base: number): Buffer {
  const mark = base === 0 ? markBytes(chunk) : 0;
  return mark === 0 ? chunk : Buffer.concat([Buffer.alloc(mark, " "), chunk.subarray(mark)]);
}

class ElementReader {
  readonly #reading: ElementReading;
  readonly #scanner: ElementScanner;
  readonly #open: RecordHolder;
  #isOpen = false;
  #found: { bytes: Buffer; isWhole: boolean; line: number }[] = [];
  #index: number;
  #line = 1;
  #chunk: Buffer = Buffer.alloc(0);
  #base = 0;
  /** Offset up to which the current chunk is used. */
  #taken = 0;

  constructor(reading: ElementReading) {
    const { file, start, firstLine } = reading.slice;
    this.#reading = reading;
    this.#index = reading.firstIndex;
    this.#open = new RecordHolder(reading.maxLineBytes);
    const { isPart } = reading;
    this.#scanner = new ElementScanner(
      { file, start, firstLine, isPart },
      {
        start: (offset, line) => {
          this.#isOpen = true;
          this.#line = line;
          this.#taken = offset - this.#base;
        },
        end: (offset) => this.#close(offset - this.#base),
      },
    );
  }

  push(chunk: Buffer, base: number): void {
    this.#chunk = chunk;
    this.#base = base;
    this.#taken = 0;
    try {
      this.#scanner.push(chunk);
    } catch (cause) {
      if (!(cause instanceof SluiceError)) throw cause;
      // The scan found no fault here.
      throw new SluiceError("INPUT_CHANGED", "", { file: this.#reading.slice.file, cause });
    }
    if (this.#isOpen) this.#open.hold(chunk.subarray(this.#taken));
  }

  /** Takes the whole file as one record. */
  end(): void {
    if (!this.#isOpen) return;
    this.#found.push({ ...this.#open.take(), line: this.#line });
    this.#isOpen = false;
  }

  *rows(): Generator<InputRow[]> {
    const batch = new RowBatch();
    for (const { bytes, isWhole, line } of this.#found) {
      batch.add(this.#row(bytes, isWhole, line));
      if (batch.isFull) yield batch.take();
    }
    this.#found = [];
    if (!batch.isEmpty) yield batch.take();
  }

  #close(end: number): void {
    this.#open.hold(this.#chunk.subarray(this.#taken, end));
    this.#found.push({ ...this.#open.take(), line: this.#line });
    this.#isOpen = false;
  }

  #row(bytes: Buffer, isWhole: boolean, line: number): InputRow {
    const { maxLineBytes, slice } = this.#reading;
    const index = this.#index++;
    if (!isWhole || !isUtf8(bytes) || bytes.includes(0)) {
      return faultyRow(bytes, { index, file: slice.file, line }, isWhole, maxLineBytes);
    }
    let end = bytes.length;
    while (isBlank(bytes[end - 1]!)) end--;
    const text = bytes.toString("utf8", 0, end);
    const row = parseRow(text, index, slice.file, line);
    if (row.value) row.raw = onOneLine(text);
    return row;
  }
}

/** Removes line breaks and indentation of valid JSON; strings cannot contain them. */
function onOneLine(text: string): string {
  return /[\r\n]/.test(text) ? text.replaceAll(/[\r\n]+[ \t]*/g, "") : text;
}
