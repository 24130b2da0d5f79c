import { gzipSync, zstdCompressSync } from "node:zlib";
import type { CompressionCodec } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import type { Compressors } from "hyparquet-writer/src/types.js";
import { snappyCompressor } from "hysnappy";
import { limits } from "../../../foundation/limits.ts";
import { ColumnMisfit, fits } from "../../column-fit.ts";
import type { Column, ColumnType } from "../../column-types.ts";
import { type ExactJson, type ExactRow, exactText, parseExactly } from "../../exact-json.ts";
import type { EncoderOptions, RowEncoder } from "../encoder.ts";
import { isKeptAsJson, writtenSchema } from "./written-schema.ts";
import { type ToWritten, writtenValue } from "./written-values.ts";

/** How the pages of a Parquet file are compressed. */
export type PageCompression = "snappy" | "gzip" | "zstd" | "none";

interface PageCodec {
  codec: CompressionCodec;
  compressors: Compressors;
}

const codecs: Record<PageCompression, () => PageCodec> = {
  snappy: () => ({ codec: "SNAPPY", compressors: { SNAPPY: snappyCompressor() } }),
  gzip: () => ({ codec: "GZIP", compressors: { GZIP: (page) => gzipSync(page) } }),
  zstd: () => ({ codec: "ZSTD", compressors: { ZSTD: (page) => zstdCompressSync(page) } }),
  none: () => ({ codec: "UNCOMPRESSED", compressors: {} }),
};

/**
 * A Parquet file of exactly these columns. Memory holds one row group, which is written when it has
 * `limits.maxRowGroupRows` rows or `limits.maxRowGroupChars` characters of JSON; equal rows give
 * equal bytes, however they are handed over.
 *
 * @throws ColumnMisfit of `add`: where a row does not fit the columns.
 */
export function parquetEncoder(
  { columns }: EncoderOptions,
  compression: PageCompression = "snappy",
): RowEncoder {
  const bytes = new TakenBytes();
  const file = new RowGroups(columns, bytes, compression);
  return {
    add: async (lines) => {
      for (const line of lines) file.add(line);
      return bytes.take();
    },
    end: async () => {
      file.end();
      return bytes.take();
    },
  };
}

/** Bytes from which on a page is kept as it is, rather than copied behind what is there. */
const ownPageBytes = 64 * 1024;

/** What a writer wrote, taken away as often as one likes. */
class TakenBytes extends ByteWriter {
  #taken: Uint8Array[] = [];

  /** The library makes each page anew, and does not change it any more. */
  override appendBytes(bytes: Uint8Array): void {
    if (bytes.length < ownPageBytes) return super.appendBytes(bytes);
    this.flush();
    this.#taken.push(bytes);
    this.offset += bytes.length;
  }

  /** The library calls it at the end of each row group. */
  flush(): void {
    if (this.index > 0) this.#taken.push(this.getBytes().slice());
    this.index = 0;
  }

  override finish(): void {
    this.flush();
  }

  take(): Uint8Array[] {
    const taken = this.#taken;
    this.#taken = [];
    return taken;
  }
}

interface WrittenColumn extends Column {
  convert: ToWritten;
  /** Bounds of JSON are whole documents, and of use to nobody. */
  statistics: boolean;
  values: unknown[];
}

class RowGroups {
  readonly #columns: WrittenColumn[];
  /** Whether no column holds lists or objects. */
  readonly #isFlat: boolean;
  readonly #writer: ParquetWriter;
  #rows = 0;
  #chars = 0;

  constructor(columns: readonly Column[], bytes: TakenBytes, compression: PageCompression) {
    if (columns.length > limits.maxColumns) {
      throw new Error(`${columns.length} columns exceed the limit of ${limits.maxColumns}`);
    }
    this.#columns = columns.map((column) => ({
      ...column,
      convert: writtenValue(column.type),
      statistics: !holdsJson(column.type),
      values: [],
    }));
    const nested = new Set(["list", "struct", "map", "json"]);
    this.#isFlat = columns.every(({ type }) => !nested.has(type.kind));
    this.#writer = new ParquetWriter({
      writer: bytes,
      schema: writtenSchema(columns),
      createdBy: "sluice",
      ...codecs[compression](),
    });
  }

  add(line: string): void {
    const row = this.#parse(line);
    let present = 0;
    for (const column of this.#columns) {
      const isPresent = Object.hasOwn(row, column.name);
      const value = isPresent ? row[column.name]! : null;
      if (isPresent) present++;
      if (!fits(column, value)) throw misfit(column.name, exactText(value));
      column.values.push(column.convert(value));
    }
    if (Object.keys(row).length > present) throw this.#unknownColumn(row);
    this.#rows++;
    this.#chars += line.length;
    const isFull = this.#rows >= limits.maxRowGroupRows || this.#chars >= limits.maxRowGroupChars;
    if (isFull) this.#write();
  }

  end(): void {
    if (this.#rows > 0) this.#write();
    this.#writer.finish();
  }

  /** Looks for numbers that lose digits among the values, which is quicker than in the text. */
  #parse(line: string): ExactRow {
    const row = (this.#isFlat ? JSON.parse(line) : parseExactly(line)) as ExactRow;
    if (!this.#isFlat || !this.#columns.some(({ name }) => isInexact(row[name]))) return row;
    return parseExactly(line) as ExactRow;
  }

  #unknownColumn(row: ExactRow): ColumnMisfit {
    const names = new Set(this.#columns.map(({ name }) => name));
    const unknown = Object.keys(row).find((name) => !names.has(name));
    return new ColumnMisfit(`column ${unknown} is in a row and not in the file`);
  }

  #write(): void {
    const columnData = this.#columns.map(({ name, statistics, values }) => ({
      name,
      statistics,
      data: values,
    }));
    this.#writer.write({ columnData, rowGroupSize: this.#rows });
    for (const column of this.#columns) column.values = [];
    this.#rows = 0;
    this.#chars = 0;
  }
}

/** Whether the text of a number may have had more digits. */
function isInexact(value: ExactJson | undefined): boolean {
  return typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
}

function misfit(name: string, value: string): ColumnMisfit {
  return new ColumnMisfit(`column ${name} of the file cannot hold ${value.slice(0, 100)}`);
}

function holdsJson(type: ColumnType): boolean {
  if (type.kind === "list") return holdsJson(type.element.type);
  if (type.kind === "map") return holdsJson(type.value.type);
  if (type.kind === "struct") {
    return isKeptAsJson(type) || type.fields.some((field) => holdsJson(field.type));
  }
  return type.kind === "json";
}
