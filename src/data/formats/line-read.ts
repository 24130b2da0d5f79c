import { isAscii, isUtf8 } from "node:buffer";
import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";
import { markBytes, verifiedChunks } from "./chunks.ts";
import { isLineBlank } from "./line-scan.ts";
import { faultyRow } from "./parse-row.ts";
import { RecordHolder } from "./record-holder.ts";
import { RowBatch } from "./row-batch.ts";

const newline = 10;
const carriageReturn = 13;

/** Makes a row of a line's text. */
export type LineToRow = (text: string, index: number, file: string, line: number) => InputRow;

export interface LineReading {
  slice: Slice;
  firstIndex: number;
  maxLineBytes: number;
  chunkBytes: number;
  toRow: LineToRow;
}

/** The rows of a slice with one record a line. Counterpart of `scanLines`. */
export async function* readLines(
  reader: RandomReader,
  reading: LineReading,
): AsyncGenerator<InputRow[]> {
  const lines = new LineReader(reading);
  let isStart = reading.slice.start === 0;
  for await (const chunk of verifiedChunks(reader, reading.slice, reading.chunkBytes)) {
    yield* lines.push(isStart ? chunk.subarray(markBytes(chunk)) : chunk);
    isStart = false;
  }
  yield* lines.end();
}

class LineReader {
  readonly #reading: LineReading;
  readonly #file: string;
  readonly #maxLineBytes: number;
  readonly #batch = new RowBatch();
  /** The line that the last chunk ended in. */
  readonly #open: RecordHolder;
  #index: number;
  #line: number;

  constructor(reading: LineReading) {
    this.#reading = reading;
    this.#file = reading.slice.file;
    this.#maxLineBytes = reading.maxLineBytes;
    this.#open = new RecordHolder(reading.maxLineBytes);
    this.#index = reading.firstIndex;
    this.#line = reading.slice.firstLine;
  }

  *push(chunk: Buffer): Generator<InputRow[]> {
    const end = chunk.lastIndexOf(newline) + 1;
    let start = 0;
    if (end > 0 && this.#open.bytes > 0) {
      start = chunk.indexOf(newline) + 1;
      this.#open.hold(chunk.subarray(0, start - 1));
      this.#closeLine();
    }
    if (start < end) yield* this.#block(chunk.subarray(start, end));
    if (end < chunk.length) this.#open.hold(chunk.subarray(end));
    if (!this.#batch.isEmpty) yield this.#batch.take();
  }

  *end(): Generator<InputRow[]> {
    if (this.#open.bytes > 0) this.#closeLine();
    if (!this.#batch.isEmpty) yield this.#batch.take();
  }

  #closeLine(): void {
    const { bytes, isWhole } = this.#open.take();
    this.#bytesLine(bytes, isWhole);
  }

  /** Complete lines. Usually none is at fault, so they are checked together and decoded at once. */
  *#block(block: Buffer): Generator<InputRow[]> {
    const isOneByte = isAscii(block);
    const isSound =
      block.length <= this.#maxLineBytes && (isOneByte || isUtf8(block)) && block.indexOf(0) < 0;
    if (!isSound) return yield* this.#blockByLine(block);
    const text = block.toString(isOneByte ? "latin1" : "utf8");
    const { toRow } = this.#reading;
    const batch = this.#batch;
    for (let start = 0; start < text.length; ) {
      const end = text.indexOf("\n", start);
      const last = text.charCodeAt(end - 1) === carriageReturn && end > start ? end - 1 : end;
      if (!isTextBlank(text, start, last)) {
        batch.add(toRow(text.slice(start, last), this.#index++, this.#file, this.#line));
        if (batch.isFull) yield batch.take();
      }
      this.#line++;
      start = end + 1;
    }
  }

  *#blockByLine(block: Buffer): Generator<InputRow[]> {
    for (let start = 0; start < block.length; ) {
      const end = block.indexOf(newline, start);
      const isWhole = end - start <= this.#maxLineBytes;
      this.#bytesLine(block.subarray(start, end), isWhole);
      if (this.#batch.isFull) yield this.#batch.take();
      start = end + 1;
    }
  }

  #bytesLine(line: Buffer, isWhole: boolean): void {
    const place = { index: this.#index, file: this.#file, line: this.#line++ };
    const content = isWhole && line.at(-1) === carriageReturn ? line.subarray(0, -1) : line;
    if (isWhole && content.every(isLineBlank)) return;
    this.#index++;
    const isSound = isWhole && isUtf8(content) && content.indexOf(0) < 0;
    const row = isSound
      ? this.#reading.toRow(content.toString(), place.index, place.file, place.line)
      : faultyRow(content, place, isWhole, this.#maxLineBytes);
    this.#batch.add(row);
  }
}

function isTextBlank(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (!isLineBlank(text.charCodeAt(at))) return false;
  return true;
}
