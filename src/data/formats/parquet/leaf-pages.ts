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
 * The values of one column of one row group, decoded page by page as rows are taken. For a
 * leaf of a nested column, each row's values come in the lists that the leaf lies in.
 */
export class LeafPages {
  readonly #decoder: ColumnDecoder;
  readonly #reader: { view: DataView; offset: number };
  readonly #isFlat: boolean;
  #dictionary: DecodedArray | undefined;
  /** Rows decoded and not yet taken begin at `#at`. */
  #rows: DecodedArray = [];
  #at = 0;
  #page = 0;
  /** Values that pages still have to hold; a row of a flat column is one. */
  #valuesLeft: number;
  readonly #hasNullCounts: boolean;
  /** Nulls that all pages must have together; undefined = not known. */
  #nullCount: number | undefined;
  #nulls = 0;

  /**
   * @param hasNullCounts whether the file counts the nulls of flat columns right. Nested columns
   *   are not compared: Arrow missed some of their nulls up to version 25.
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

  /** Number of the page that was read last, from 1. */
  get page(): number {
    return this.#page;
  }

  /** Leaves out rows, pages of a flat column without decoding them. */
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
   * @throws Error where the pages hold fewer, or are damaged.
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
   * Checks, when all rows were taken, that this is all there is.
   *
   * @throws Error where the pages hold more rows, or other counts of values and nulls than is said.
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

  /** Rows at hand; the last one of a nested column may go on in the next page. */
  get #wholeRows(): number {
    const rows = this.#rows.length - this.#at;
    return this.#isFlat || this.#isAtEnd || rows === 0 ? rows : rows - 1;
  }

  get #isAtEnd(): boolean {
    return this.#reader.offset >= this.#reader.view.byteLength;
  }

  /** Reads one page; of up to `skippable` rows it may only tell how many it has. */
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
    // Nested rows are added to those there are, for one may reach over two pages.
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

  /** Counts the nulls of a page. The library would read as many values as the header leaves. */
  #withNulls(header: PageHeader, { nulls }: OpenedPage): PageHeader {
    this.#nulls += nulls;
    const v2 = header.data_page_header_v2;
    if (!v2) return header;
    if (this.#hasNullCounts && v2.num_nulls !== nulls) {
      throw new Error(`a page has ${nulls} nulls, and says ${v2.num_nulls}`);
    }
    return { ...header, data_page_header_v2: { ...v2, num_nulls: nulls } };
  }

  /** Values of a page, by its header; the library would make room for any count. */
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

  /** A damaged header would have the library read anywhere. */
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

/** Nulls are `null`: what is undefined stood in no page, and in no dictionary. */
function checkPage(data: DecodedArray, values: number): void {
  if (data.length !== values) {
    throw new Error(`a page holds ${data.length} of the ${values} values that it says`);
  }
  if (Array.isArray(data) && data.includes(undefined)) throw new Error("a page lacks values");
}
