import { isUtf8 } from "node:buffer";
import type { InputRow, Slice } from "../../row.ts";
import type { RowReadOptions } from "../format.ts";
import { RecordHolder } from "../record-holder.ts";
import { RowBatch } from "../row-batch.ts";
import type { Dialect } from "./dialect.ts";
import type { Header } from "./header.ts";
import { type loadPapa, parseRecords } from "./parse-fields.ts";
import { RecordRows } from "./record-rows.ts";
import { RecordScanner } from "./record-scanner.ts";

const carriageReturn = 13;

export interface RecordReading {
  header: Header;
  slice: Slice;
  firstIndex: number;
  options: RowReadOptions;
  dialect: Dialect;
  papa: Awaited<ReturnType<typeof loadPapa>>;
}

/** A record that lies whole in the current chunk. */
interface Found {
  start: number;
  end: number;
  line: number;
  isMalformed: boolean;
}

/** Makes rows of the bytes of a slice, chunk by chunk. */
export class RecordReader {
  readonly #reading: RecordReading;
  readonly #rows: RecordRows;
  readonly #scanner: RecordScanner;
  readonly #batch = new RowBatch();
  /** The record that earlier chunks left open. */
  readonly #open: RecordHolder;
  #index: number;
  #chunk: Buffer = Buffer.alloc(0);
  #base: number;
  /** Where in the current chunk the open record begins; below 0 where none is open. */
  #start = -1;
  #line = 1;
  /** A record that began in an earlier chunk: the first of this one. */
  #held: { bytes: Buffer; isWhole: boolean; line: number; isMalformed: boolean } | undefined;
  #found: Found[] = [];

  constructor(reading: RecordReading) {
    const { header, slice, options, dialect, firstIndex } = reading;
    this.#reading = reading;
    this.#rows = new RecordRows(header, slice, options);
    this.#open = new RecordHolder(options.maxLineBytes);
    this.#index = firstIndex;
    const isFirst = slice.start === 0;
    this.#base = isFirst ? header.bytes : slice.start;
    const firstLine = isFirst ? header.lastLine : slice.firstLine;
    const at = { start: this.#base, firstLine, delimiter: dialect.delimiter.charCodeAt(0) };
    this.#scanner = new RecordScanner(slice.file, at, {
      start: (offset, line) => {
        this.#start = offset - this.#base;
        this.#line = line;
      },
      end: (offset, isMalformed) => this.#close(offset - this.#base, isMalformed),
    });
  }

  *push(chunk: Buffer): Generator<InputRow[]> {
    this.#chunk = chunk;
    this.#scanner.push(chunk);
    if (this.#start >= 0) {
      this.#open.hold(chunk.subarray(this.#start));
      this.#start = 0;
    }
    yield* this.#take();
    this.#base += chunk.length;
  }

  *end(): Generator<InputRow[]> {
    this.#chunk = Buffer.alloc(0);
    this.#scanner.end();
    yield* this.#take();
  }

  #close(end: number, isMalformed: boolean): void {
    const { start, line } = { start: this.#start, line: this.#line };
    this.#start = -1;
    if (this.#open.bytes === 0) {
      this.#found.push({ start, end, line, isMalformed });
      return;
    }
    this.#open.hold(this.#chunk.subarray(0, Math.max(0, end)));
    const { bytes, isWhole } = this.#open.take();
    // At the end of a file that was cut within a line's end, its first byte was held as well.
    const record = end < 0 ? bytes.subarray(0, end) : bytes;
    this.#held = { bytes: record, isWhole, line, isMalformed };
  }

  *#take(): Generator<InputRow[]> {
    if (this.#held) {
      const { bytes, isWhole, line, isMalformed } = this.#held;
      this.#batch.add(this.#single(bytes, isWhole, line, isMalformed));
      this.#held = undefined;
    }
    const found = this.#found;
    this.#found = [];
    const parsed = found.length > 0 ? this.#parseTogether(found) : undefined;
    for (const [at, { start, end, line, isMalformed }] of found.entries()) {
      const bytes = this.#chunk.subarray(start, end);
      const isWhole = bytes.length <= this.#reading.options.maxLineBytes;
      const fields = parsed?.[at];
      this.#batch.add(
        fields
          ? this.#rows.row(fields, { index: this.#index++, line }, () => bytes.toString())
          : this.#single(bytes, isWhole, line, isMalformed),
      );
      if (this.#batch.isFull) yield this.#batch.take();
    }
    if (!this.#batch.isEmpty) yield this.#batch.take();
  }

  /** Parses records at once, as mostly none is at fault; undefined where one may be. */
  #parseTogether(found: readonly Found[]): string[][] | undefined {
    const newline = this.#commonLineEnd(found);
    if (newline === undefined) return undefined;
    const block = this.#chunk.subarray(found[0]!.start, found.at(-1)!.end);
    if (!isUtf8(block) || block.includes(0)) return undefined;
    const { papa, dialect } = this.#reading;
    const parsed = parseRecords(papa, block.toString(), dialect.delimiter, newline);
    return parsed?.length === found.length ? parsed : undefined;
  }

  /** What lies between all of the records; undefined where that differs, or one is at fault. */
  #commonLineEnd(found: readonly Found[]): "\n" | "\r\n" | undefined {
    const { maxLineBytes } = this.#reading.options;
    const gap = found.length > 1 ? found[1]!.start - found[0]!.end : 1;
    for (const [at, { start, end, isMalformed }] of found.entries()) {
      if (isMalformed || end - start > maxLineBytes) return undefined;
      if (at === 0) continue;
      const before = found[at - 1]!.end;
      if (start - before !== gap) return undefined;
      if (gap > 1 && this.#chunk[before] !== carriageReturn) return undefined;
    }
    return gap === 1 ? "\n" : gap === 2 ? "\r\n" : undefined;
  }

  #single(bytes: Buffer, isWhole: boolean, line: number, isMalformed: boolean): InputRow {
    const place = { index: this.#index++, line };
    const isSound = isWhole && !isMalformed && isUtf8(bytes) && !bytes.includes(0);
    const { papa, dialect } = this.#reading;
    const text = isSound ? bytes.toString() : "";
    const parsed = isSound ? parseRecords(papa, text, dialect.delimiter, "\n") : undefined;
    if (parsed?.length !== 1) return this.#rows.unreadable(bytes, place, isWhole);
    return this.#rows.row(parsed[0]!, place, () => text);
  }
}
