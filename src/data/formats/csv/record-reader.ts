import { isUtf8 } from "node:buffer";
import { SluiceError } from "../../../foundation/errors.ts";
import type { JsonObject } from "../../../foundation/json.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { RowReadOptions } from "../format.ts";
import { faultyRow } from "../parse-row.ts";
import { RecordHolder } from "../record-holder.ts";
import { RowBatch } from "../row-batch.ts";
import type { Dialect } from "./dialect.ts";
import type { Header } from "./header.ts";
import { type loadPapa, parseRecords } from "./parse-fields.ts";
import { RecordScanner } from "./record-scanner.ts";
import { type FieldReader, fieldReader } from "./typed-text.ts";

const carriageReturn = 13;

export interface RecordReading {
  header: Header;
  slice: Slice;
  firstIndex: number;
  options: RowReadOptions;
  dialect: Dialect;
  papa: Awaited<ReturnType<typeof loadPapa>>;
}

/** A record that lies completely in the current chunk. */
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
  /** The unfinished record of earlier chunks. */
  readonly #open: RecordHolder;
  #index: number;
  #chunk: Buffer = Buffer.alloc(0);
  #base: number;
  /** Offset in the current chunk of the open record; below 0 if none is open. */
  #start = -1;
  #line = 1;
  /** A record that began in an earlier chunk; it comes first in this one. */
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
    // If the file was truncated within a line end, its first byte is part of the record.
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

  /** Parses all records at once, since usually none is at fault; undefined if one may be. */
  #parseTogether(found: readonly Found[]): string[][] | undefined {
    const newline = this.#commonLineEnd(found);
    if (newline === undefined) return undefined;
    const block = this.#chunk.subarray(found[0]!.start, found.at(-1)!.end);
    if (!isUtf8(block) || block.includes(0)) return undefined;
    const { papa, dialect } = this.#reading;
    const parsed = parseRecords(papa, block.toString(), dialect.delimiter, newline);
    return parsed?.length === found.length ? parsed : undefined;
  }

  /** The line end between all the records; undefined if they differ or a record is at fault. */
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

/** A field that rows keep. `read` makes its value; without it, the field is text. */
interface KeptField {
  name: string;
  /** Index in the record. */
  at: number;
  read: FieldReader | undefined;
}

interface RecordPlace {
  index: number;
  line: number;
}

/** Makes rows of the fields of records. */
class RecordRows {
  readonly #file: string;
  readonly #header: Header;
  readonly #maxLineBytes: number;
  readonly #kept: readonly KeptField[];
  /** True if all values are text and no name is special: values can be set one by one. */
  readonly #isPlain: boolean;

  constructor(header: Header, slice: Slice, options: RowReadOptions) {
    const { columns = header.names, schema, maxLineBytes } = options;
    this.#file = slice.file;
    this.#header = header;
    this.#maxLineBytes = maxLineBytes;
    const places = new Map(header.names.map((name, at) => [name, at]));
    this.#kept = columns.flatMap((name) => {
      const at = places.get(name);
      return at === undefined ? [] : { name, at, read: schema && fieldReader(schema, name) };
    });
    this.#isPlain = schema === undefined && !header.names.includes("__proto__");
  }

  /** The row of a record's fields. `raw` gives the record's text, for a row with an error. */
  row(fields: readonly string[], place: RecordPlace, raw: () => string): InputRow {
    const { names } = this.#header;
    if (fields.length !== names.length) {
      return this.#fault(place, raw(), raggedDetail(fields, names), names[fields.length]);
    }
    const { index, line } = place;
    const value = this.#isPlain ? this.#plainValue(fields) : undefined;
    const json = value ? JSON.stringify(value) : this.#jsonText(fields);
    return { index, file: this.#file, line, raw: json, value: value ?? JSON.parse(json) };
  }

  /** The row of a record that is too long, not UTF-8, or has a NUL byte or a misplaced quote. */
  unreadable(bytes: Buffer, place: RecordPlace, isWhole: boolean): InputRow {
    if (isWhole && isUtf8(bytes) && !bytes.includes(0)) {
      return this.#fault(place, bytes.toString(), "text follows a closing quote", undefined);
    }
    const found = { index: place.index, file: this.#file, line: place.line };
    return faultyRow(bytes, found, isWhole, this.#maxLineBytes);
  }

  #fault(
    { index, line }: RecordPlace,
    raw: string,
    detail: string,
    field: string | undefined,
  ): InputRow {
    const file = this.#file;
    const error = new SluiceError("CSV_INVALID", detail, { file, line, field });
    return { index, file, line, raw, error };
  }

  #plainValue(fields: readonly string[]): JsonObject {
    const value: JsonObject = {};
    for (const { name, at } of this.#kept) value[name] = fields[at]!;
    return value;
  }

  #jsonText(fields: readonly string[]): string {
    const members: string[] = [];
    for (const { name, at, read } of this.#kept) {
      const json = read ? read(fields[at]!) : JSON.stringify(fields[at]!);
      if (json !== undefined) members.push(`${JSON.stringify(name)}:${json}`);
    }
    return `{${members.join(",")}}`;
  }
}

function raggedDetail(fields: readonly string[], names: readonly string[]): string {
  const count = fields.length === 1 ? "1 field" : `${fields.length} fields`;
  const counts = `it has ${count}, the header has ${names.length}`;
  const next = names[fields.length];
  if (next !== undefined) return `${counts}: the first that is missing is ${JSON.stringify(next)}`;
  const extra = JSON.stringify(fields[names.length]!.slice(0, 40));
  return `${counts}: the first that is too many is ${extra}`;
}
