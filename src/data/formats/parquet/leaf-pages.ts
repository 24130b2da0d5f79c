import { crc32 } from "node:zlib";
import type { DecodedArray, PageHeader } from "hyparquet";
import { parquetHeader, readPage } from "hyparquet/src/column.js";
import { convert } from "hyparquet/src/convert.js";
import { isFlatColumn } from "hyparquet/src/schema.js";
import type { ColumnDecoder } from "hyparquet/src/types.js";
import { limits } from "../../../foundation/limits.ts";
import type { ChunkBytes } from "./group-bytes.ts";
import { type OpenedPage, openedPage } from "./page-runs.ts";

/**
 * The values of one column of one row group, decoded page by page as rows are taken. For a leaf of
 * a nested column, the values of a row come in the lists around the leaf.
 */
export class LeafPages {
  readonly #decoder: ColumnDecoder;
  readonly #reader: { view: DataView; offset: number };
  readonly #isFlat: boolean;
  #dictionary: DecodedArray | undefined;
  /** Decoded rows; those not taken yet begin at `#at`. */
  #rows: DecodedArray = [];
  #at = 0;
  #page = 0;
  /** Values that the remaining pages must hold; in a flat column, a value is a row. */
  #valuesLeft: number;
  readonly #hasNullCounts: boolean;
  /** Nulls that all pages together must have; undefined = unknown. */
  #nullCount: number | undefined;
  #nulls = 0;

  /**
   * @param hasNullCounts whether the file counts the nulls of flat columns right. Counts of nested
   *   columns are ignored: up to version 25, Arrow missed some of their nulls.
   */
  constructor(decoder: ColumnDecoder, { meta, bytes }: ChunkBytes, hasNullCounts: boolean) {
    this.#decoder = decoder;
    this.#valuesLeft = Number(meta.num_values);
    this.#reader = {
      view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
      offset: 0,
    };
    this.#isFlat = isFlatColumn(decoder.schemaPath);
    this.#hasNullCounts = hasNullCounts && this.#isFlat;
    const nulls = meta.statistics?.null_count;
    if (this.#hasNullCounts && nulls !== undefined) this.#nullCount = Number(nulls);
  }

  /** Number of the last page that was read, from 1. */
  get page(): number {
    return this.#page;
  }

  /** Skips rows. Pages of a flat column are not decoded for that. */
  skip(count: number): void {
    for (let left = count; left > 0; ) {
      const step = Math.min(left, this.#wholeRows);
      this.#at += step;
      left -= step;
      if (left > 0) left -= this.#nextPage(left);
    }
  }

  /**
   * The values of the next `count` rows.
   *
   * @throws Error if the pages hold fewer, or are damaged.
   */
  take(count: number): DecodedArray {
    if (!this.#isFlat) return this.#takeNested(count);
    const parts: DecodedArray[] = [];
    for (let left = count; left > 0; ) {
      const part = this.#rows.slice(this.#at, this.#at + left);
      this.#at += part.length;
      left -= part.length;
      if (part.length > 0) parts.push(part);
      if (left > 0) this.#nextPage(0);
    }
    return parts.length === 1 ? parts[0]! : parts.flatMap((part) => Array.from(part));
  }

  /**
   * Checks, after all rows were taken, that nothing is left.
   *
   * @throws Error if the pages hold more rows, or if counts of values or nulls are wrong.
   */
  end(): void {
    while (!this.#isAtEnd) this.#nextPage(0);
    if (this.#rows.length > this.#at) {
      throw new Error("its pages hold more rows than the row group");
    }
    if (this.#valuesLeft > 0) throw new Error(`its pages lack ${this.#valuesLeft} values`);
    if (this.#nulls !== (this.#nullCount ?? this.#nulls)) {
      throw new Error(`its pages have ${this.#nulls} nulls, the footer says ${this.#nullCount}`);
    }
  }

  #takeNested(count: number): DecodedArray {
    while (this.#wholeRows < count) this.#nextPage(0);
    this.#at += count;
    return this.#rows.slice(this.#at - count, this.#at);
  }

  /** Complete decoded rows. The last row of a nested column may continue in the next page. */
  get #wholeRows(): number {
    const rows = this.#rows.length - this.#at;
    return this.#isFlat || this.#isAtEnd || rows === 0 ? rows : rows - 1;
  }

  get #isAtEnd(): boolean {
    return this.#reader.offset >= this.#reader.view.byteLength;
  }

  /** Reads a page. If it has at most `skippable` rows, it is only counted. */
  #nextPage(skippable: number): number {
    if (this.#isAtEnd) throw new Error("its pages hold fewer rows than the row group");
    const header = parquetHeader(this.#reader);
    const isRows = header.type === "DATA_PAGE" || header.type === "DATA_PAGE_V2";
    if (isRows) this.#page++;
    this.#check(header);
    if (header.type === "DICTIONARY_PAGE") {
      const { data } = readPage(this.#reader, header, this.#decoder, undefined, undefined, 0);
      if (data) this.#dictionary = convert(data, this.#decoder);
      return 0;
    }
    if (!isRows) {
      this.#reader.offset += header.compressed_page_size;
      return 0;
    }
    const values = this.#countedValues(header);
    if (this.#isFlat && values <= skippable) {
      this.#nullCount = undefined;
      this.#reader.offset += header.compressed_page_size;
      return values;
    }
    this.#decode(header, values);
    return 0;
  }

  #decode(header: PageHeader, values: number): void {
    // A nested row may span two pages, so new rows are added to the decoded ones.
    const before = this.#isFlat ? undefined : Array.from(this.#rows).slice(this.#at);
    const data = this.#dataOf(header, before);
    if (this.#isFlat) checkPage(data, values);
    this.#rows = before && data !== before ? [...before, ...data] : data;
    this.#at = 0;
  }

  #dataOf(header: PageHeader, before: DecodedArray | undefined): DecodedArray {
    const { view, offset } = this.#reader;
    const size = header.compressed_page_size;
    this.#reader.offset += size;
    const bytes = new Uint8Array(view.buffer, view.byteOffset + offset, size);
    const page = openedPage(header, bytes, this.#decoder);
    const { buffer, byteOffset, length } = page.bytes;
    const reader = { view: new DataView(buffer, byteOffset, length), offset: 0 };
    const plainHeader = {
      ...this.#withNulls(header, page),
      compressed_page_size: length,
      uncompressed_page_size: length,
    };
    const decoder: ColumnDecoder = { ...this.#decoder, codec: "UNCOMPRESSED" };
    return readPage(reader, plainHeader, decoder, this.#dictionary, before, 0).data ?? [];
  }

  /** Counts the nulls of a page: the library reads as many values as the header claims. */
  #withNulls(header: PageHeader, { nulls }: OpenedPage): PageHeader {
    this.#nulls += nulls;
    const v2 = header.data_page_header_v2;
    if (!v2) return header;
    if (this.#hasNullCounts && v2.num_nulls !== nulls) {
      throw new Error(`a page has ${nulls} nulls, and says ${v2.num_nulls}`);
    }
    return { ...header, data_page_header_v2: { ...v2, num_nulls: nulls } };
  }

  /** Values of a page by its header; the library would allocate memory for any number. */
  #countedValues({ data_page_header: v1, data_page_header_v2: v2 }: PageHeader): number {
    const values = (v1 ?? v2)?.num_values ?? -1;
    const isOdd = v2 && (this.#isFlat ? v2.num_rows !== values : v2.num_rows > values);
    if ((v1 ?? v2)?.encoding.endsWith("_DICTIONARY") && !this.#dictionary) {
      throw new Error("a page refers to a dictionary, and none lies before it");
    }
    if (values < 0 || isOdd) throw new Error("the header of a page is damaged");
    this.#valuesLeft -= values;
    if (this.#valuesLeft < 0) {
      throw new Error("its pages hold more values than the footer says");
    }
    return values;
  }

  /** With a damaged header, the library would read anywhere. */
  #check(header: PageHeader): void {
    const { view, offset } = this.#reader;
    const size = header.compressed_page_size;
    if (!(size >= 0) || offset + size > view.byteLength) {
      throw new Error("the header of a page is damaged");
    }
    if (header.uncompressed_page_size > limits.maxPageBytes) {
      const most = limits.maxPageBytes / 1024 / 1024;
      throw new Error(`a page has ${header.uncompressed_page_size} bytes; ${most} MiB are read`);
    }
    if (header.crc === undefined) return;
    const bytes = new Uint8Array(view.buffer, view.byteOffset + offset, size);
    if (crc32(bytes) !== header.crc >>> 0) throw new Error("a page has another checksum");
  }
}

/** A null is `null`; an undefined value was in no page and no dictionary. */
function checkPage(data: DecodedArray, values: number): void {
  if (data.length !== values) {
    throw new Error(`a page holds ${data.length} of the ${values} values that it says`);
  }
  if (Array.isArray(data) && data.includes(undefined)) throw new Error("a page lacks values");
}
