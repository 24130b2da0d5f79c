import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Stream } from "../../../foundation/hashing.ts";
import { limits } from "../../../foundation/limits.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { textOf } from "../broken-text.ts";
import { chunksOf } from "../chunks.ts";
import type { RowReadOptions } from "../format.ts";
import { RowBatch } from "../row-batch.ts";
import { tableRow } from "../table-rows.ts";
import { unreadable } from "../unreadable.ts";
import { ArrowDigest } from "./arrow-digest.ts";
import { type ArrowFile, openArrow } from "./arrow-file.ts";
import { type ColumnBatch, decodeBatch } from "./library.ts";
import type { Message } from "./messages.ts";
import { type ArrowColumn, type ArrowTable, keptColumns, tableOf } from "./table.ts";
import { assertWhole } from "./whole-batch.ts";

/** Rows that are made at a time: few enough to be garbage-collected young. */
const windowRows = 256;

/**
 * The rows of some record batches, or of parts of them. Memory holds the dictionaries and one
 * decompressed batch.
 *
 * @throws SluiceError `INPUT_CHANGED`, `INPUT_UNREADABLE` if a batch is damaged.
 */
export async function* readArrow(
  reader: RandomReader,
  slice: Slice,
  firstIndex: number,
  options: RowReadOptions,
): AsyncGenerator<InputRow[]> {
  const { file } = slice;
  const arrow = await openArrow(reader, file).catch((cause) => {
    throw asChanged(cause, file);
  });
  const reading = new Reading(arrow, slice, firstIndex, options);
  const loader = new BodyLoader(reader, file);
  const digest = new ArrowDigest(arrow);
  let isVerified = false;
  let fault: unknown;
  for await (const message of asPlanned(arrow.messages(slice), file)) {
    if (message.rows === 0) continue;
    const { body, sha256 } = await loader.load(message);
    digest.add(message.rows === undefined ? "dictionary" : "batch", sha256);
    if (message.end === slice.end) {
      if (digest.of(slice) !== slice.sha256) break;
      isVerified = true;
    }
    // A batch that cannot be decoded may have changed since planning, which the checksum tells.
    if (fault !== undefined) continue;
    try {
      yield* reading.rowsOf(message, body);
    } catch (error) {
      fault = error;
    }
  }
  if (!isVerified) {
    const place = `bytes ${slice.start} to ${slice.end}, or its schema, have another checksum`;
    throw new SluiceError("INPUT_CHANGED", place, { file });
  }
  if (fault !== undefined) throw fault;
}

/** The scan accepted this part, so the file has changed since. */
function asChanged(error: unknown, file: string): unknown {
  if (!(error instanceof SluiceError) || error.code !== "INPUT_UNREADABLE") return error;
  return new SluiceError("INPUT_CHANGED", "it is no longer whole", { file, cause: error });
}

async function* asPlanned(messages: AsyncIterable<Message>, file: string): AsyncGenerator<Message> {
  try {
    yield* messages;
  } catch (error) {
    throw asChanged(error, file);
  }
}

/** Reads messages one after another into the same memory. */
class BodyLoader {
  readonly #reader: RandomReader;
  readonly #file: string;
  #memory: Buffer = Buffer.alloc(0);

  constructor(reader: RandomReader, file: string) {
    this.#reader = reader;
    this.#file = file;
  }

  async load(message: Message): Promise<{ body: Buffer; sha256: Uint8Array }> {
    const { start, bodyStart, end } = message;
    const bytes = end - bodyStart;
    if (this.#memory.length < bytes) this.#memory = Buffer.allocUnsafeSlow(bytes);
    const hash = sha256Stream();
    let offset = start;
    for await (const piece of chunksOf(this.#reader, this.#file, message, limits.readChunkBytes)) {
      hash.update(piece);
      const ofBody = piece.subarray(Math.max(0, bodyStart - offset));
      ofBody.copy(this.#memory, Math.max(0, offset - bodyStart));
      offset += piece.length;
    }
    return { body: this.#memory.subarray(0, bytes), sha256: hash.digest() };
  }
}

class Reading {
  readonly #slice: Slice;
  readonly #options: RowReadOptions;
  readonly #table: ArrowTable;
  readonly #columns: readonly ArrowColumn[];
  #index: number;
  #line: number;
  #skip: number;
  #left: number;

  constructor(arrow: ArrowFile, slice: Slice, firstIndex: number, options: RowReadOptions) {
    this.#slice = slice;
    this.#options = options;
    this.#table = tableOf(arrow.schema, slice.file);
    this.#columns = keptColumns(this.#table, slice.file, options.columns);
    this.#index = firstIndex;
    this.#skip = slice.skipRows ?? 0;
    this.#line = slice.firstLine + this.#skip;
    this.#left = slice.rows;
  }

  /** The rows of a record batch. A dictionary is kept for the batches after it. */
  *rowsOf(message: Message, body: Buffer): Generator<InputRow[]> {
    const { rows } = message;
    if (rows === undefined) {
      this.#guarded(message, "", () => this.#table.dictionaries.take(message, body));
      return;
    }
    const batches = this.#batchesOf(message, body, rows);
    let at = this.#skip;
    this.#skip = 0;
    const end = Math.min(rows, at + this.#left);
    this.#left -= end - at;
    const batch = new RowBatch();
    for (; at < end; at += windowRows) {
      const last = Math.min(end, at + windowRows);
      const values = this.#columns.map((column, number) =>
        this.#guarded(message, `, column ${column.column.name}`, () =>
          valuesOf(column, batches[number]!, at, last),
        ),
      );
      for (let row = 0; row < last - at; row++) {
        batch.add(this.#located(message, "", () => this.#row(values, row)));
        if (batch.isFull) yield batch.take();
      }
    }
    if (!batch.isEmpty) yield batch.take();
  }

  #batchesOf(message: Message, body: Buffer, rows: number): ColumnBatch[] {
    const fields = this.#table.columns.map(({ raw }) => raw);
    const all = this.#guarded(message, "", () => decodeBatch(fields, message, body));
    return this.#columns.map(({ number, column }) => {
      const batch = all[number]!;
      this.#guarded(message, `, column ${column.name}`, () => {
        if (batch.length !== rows) throw new Error(`it has ${batch.length} of ${rows} values`);
        assertWhole(batch);
      });
      return batch;
    });
  }

  #row(values: readonly ArrayLike<unknown>[], at: number): InputRow {
    const place = { index: this.#index++, file: this.#slice.file, line: this.#line++ };
    return tableRow(this.#columns, values, at, place, this.#options);
  }

  /** Reports the place before decoding, for an error if decoding is ended. */
  #guarded<Result>(message: Message, where: string, decode: () => Result): Result {
    this.#options.onPlace?.(placeOf(message, where));
    return this.#located(message, where, decode);
  }

  /** Adds the place in the file to an error of the library. */
  #located<Result>(message: Message, where: string, decode: () => Result): Result {
    try {
      return decode();
    } catch (cause) {
      const detail = `${placeOf(message, where)}: ${(cause as Error).message}`;
      throw unreadable(this.#slice.file, detail, { cause });
    }
  }
}

function placeOf({ rows, start, end }: Message, where: string): string {
  const what = rows === undefined ? "dictionary" : "record batch";
  return `${what} at bytes ${start} to ${end}${where}`;
}

function valuesOf(
  { isText }: ArrowColumn,
  batch: ColumnBatch,
  start: number,
  end: number,
): ArrayLike<unknown> {
  const values = batch.slice(start, end);
  if (!isText) return values;
  return Array.from(values, (bytes) => (bytes === null ? null : textOf(bytes as Uint8Array)));
}
