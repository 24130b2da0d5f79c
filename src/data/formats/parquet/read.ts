import type { CompressionCodec, Compressors } from "hyparquet";
import { SluiceError } from "../../../foundation/errors.ts";
import type { Json, JsonObject } from "../../../foundation/json.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import type { RowReadOptions } from "../format.ts";
import { faultyRow } from "../parse-row.ts";
import { RowBatch } from "../row-batch.ts";
import { decompressorsOf } from "./decompressors.ts";
import { type Footer, type GroupPlace, messageOf, readFooter, unreadable } from "./footer.ts";
import { type ChunkBytes, GroupLoader } from "./group-bytes.ts";
import { digestOfGroups } from "./group-digest.ts";
import { ColumnRows } from "./group-rows.ts";
import { schemaNodes } from "./raw-schema.ts";
import { type TableColumn, tableOf } from "./table.ts";
import { BrokenText } from "./text.ts";

/** Rows that are made at a time: few enough to die young. */
const windowRows = 256;

/**
 * The rows of some row groups, or of parts of them. Memory holds one row group as it lies in the
 * file (of `options.columns` only), and a page of each column decoded.
 *
 * @throws SluiceError `INPUT_CHANGED`, `INPUT_UNREADABLE` where pages are damaged.
 */
export async function* readParquet(
  reader: RandomReader,
  slice: Slice,
  firstIndex: number,
  options: RowReadOptions,
): AsyncGenerator<InputRow[]> {
  const reading = new Reading(await footerAsPlanned(reader, slice), slice, firstIndex, options);
  const digests: Uint8Array[] = [];
  const decompressors = await decompressorsOf(reading.codecs);
  const loader = new GroupLoader(reader, slice.file);
  const load = async (group: GroupPlace, isWanted: Reading["isWanted"]) => {
    const { chunks, digest } = await loader.load(group, isWanted);
    digests.push(digest);
    if (digests.length === reading.groups.length) verify(reading.footer, digests, slice);
    return chunks;
  };
  for (const group of reading.groups) {
    const chunks = await load(group, reading.isWanted);
    try {
      yield* reading.rowsOf(group, chunks, decompressors);
    } catch (error) {
      // What cannot be decoded may have been changed since it was planned.
      for (const rest of reading.groups.slice(digests.length)) await load(rest, () => false);
      throw error;
    }
  }
}

async function footerAsPlanned(reader: RandomReader, slice: Slice): Promise<Footer> {
  try {
    return await readFooter(reader, slice.file);
  } catch (cause) {
    if (!(cause instanceof SluiceError) || cause.code !== "INPUT_UNREADABLE") throw cause;
    throw new SluiceError("INPUT_CHANGED", "its footer is another", { file: slice.file, cause });
  }
}

function verify(footer: Footer, digests: readonly Uint8Array[], slice: Slice): void {
  if (digestOfGroups(footer, digests, slice) === slice.sha256) return;
  const place = `bytes ${slice.start} to ${slice.end}, or its footer, have another checksum`;
  throw new SluiceError("INPUT_CHANGED", place, { file: slice.file });
}

class Reading {
  readonly footer: Footer;
  readonly groups: readonly GroupPlace[];
  readonly codecs: ReadonlySet<CompressionCodec>;
  readonly #slice: Slice;
  readonly #options: RowReadOptions;
  readonly #root;
  readonly #columns: TableColumn[];
  #index: number;
  #line: number;
  #skip: number;
  #left: number;

  constructor(footer: Footer, slice: Slice, firstIndex: number, options: RowReadOptions) {
    this.footer = footer;
    this.groups = footer.groups.filter(
      ({ start, end }) => start >= slice.start && end <= slice.end,
    );
    this.codecs = new Set(this.groups.flatMap(({ columns }) => columns.map(({ codec }) => codec)));
    this.#slice = slice;
    this.#options = options;
    this.#root = schemaNodes(footer.metadata).raw;
    this.#columns = chosenColumns(tableOf(footer.metadata, slice.file), slice.file, options);
    this.#index = firstIndex;
    this.#skip = slice.skipRows ?? 0;
    this.#line = slice.firstLine + this.#skip;
    this.#left = slice.rows;
    // The checksum tells this as well, of a slice that has groups.
    if (this.groups.length > 0 || slice.rows === 0) return;
    throw new SluiceError("INPUT_CHANGED", "its row groups are others", { file: slice.file });
  }

  readonly isWanted = ({ path_in_schema: [name] }: { path_in_schema: string[] }): boolean =>
    this.#columns.some(({ column }) => column.name === name);

  *rowsOf(
    group: GroupPlace,
    chunks: readonly ChunkBytes[],
    decompressors: Compressors,
  ): Generator<InputRow[]> {
    const columns = this.#columns.map((table) => {
      const own = chunks.filter(({ meta }) => meta.path_in_schema[0] === table.column.name);
      return this.#guarded(group, table, undefined, () => {
        if (own.length === 0) throw new Error("it is missing");
        return new ColumnRows(table, this.#root, own, decompressors);
      });
    });
    const skip = this.#skip;
    this.#skip = 0;
    let left = Math.min(group.rows - skip, this.#left);
    this.#left -= left;
    for (const rows of columns) this.#guarded(group, rows.table, rows, () => rows.skip(skip));
    const batch = new RowBatch();
    for (; left > 0; left -= windowRows) {
      const count = Math.min(left, windowRows);
      const values = columns.map((rows) =>
        this.#guarded(group, rows.table, rows, () => rows.take(count)),
      );
      for (let at = 0; at < count; at++) {
        batch.add(this.#row(values, at));
        if (batch.isFull) yield batch.take();
      }
    }
    if (!batch.isEmpty) yield batch.take();
  }

  /** Says of what a library throws where in the file it was. */
  #guarded<Result>(
    group: GroupPlace,
    { column }: TableColumn,
    rows: ColumnRows | undefined,
    decode: () => Result,
  ): Result {
    try {
      return decode();
    } catch (cause) {
      const page = rows ? `, page ${rows.page}` : "";
      const place = `row group ${group.number}, column ${column.name}${page}`;
      throw unreadable(this.#slice.file, `${place}: ${messageOf(cause)}`, { cause });
    }
  }

  #row(values: readonly ArrayLike<unknown>[], at: number): InputRow {
    const place = { index: this.#index++, file: this.#slice.file, line: this.#line++ };
    const { maxLineBytes, parse = true } = this.#options;
    const value: JsonObject = {};
    let raw = "{";
    let number = 0;
    for (const { column, prefix, text, json } of this.#columns) {
      const stored = values[number]![at];
      try {
        const own = text(stored);
        raw += number++ === 0 ? prefix + own : `,${prefix}${own}`;
        if (parse) value[column.name] = json ? json(stored) : (JSON.parse(own) as Json);
      } catch (thrown) {
        if (!(thrown instanceof BrokenText)) throw thrown;
        return brokenRow(thrown, column.name, place);
      }
    }
    raw += "}";
    if (raw.length > maxLineBytes) return faultyRow(Buffer.from(raw), place, false, maxLineBytes);
    return parse ? { ...place, raw, value } : { ...place, raw };
  }
}

type RowPlace = Pick<InputRow, "index" | "file" | "line">;

/** A row one of whose texts is no UTF-8; the text is kept as bytes. */
function brokenRow({ bytes }: BrokenText, field: string, place: RowPlace): InputRow {
  const error = new SluiceError("UTF8_INVALID", "", { ...place, field });
  const value: { [name: string]: Json } = { [field]: Buffer.from(bytes).toString() };
  const rawBase64 = Buffer.from(bytes).toString("base64");
  return { ...place, raw: JSON.stringify(value), rawBase64, error };
}

function chosenColumns(
  table: TableColumn[],
  file: string,
  { columns: names }: RowReadOptions,
): TableColumn[] {
  if (!names) return table;
  return names.map((name) => {
    const found = table.find(({ column }) => column.name === name);
    if (found) return found;
    const hint = `its columns are ${table.map(({ column }) => column.name).join(", ")}`;
    throw unreadable(file, `it has no column ${name}`, { hint });
  });
}
