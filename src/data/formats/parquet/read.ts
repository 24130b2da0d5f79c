import type {
  ColumnMetaData,
  CompressionCodec,
  Compressors,
  DecodedArray,
  SchemaTree,
} from "hyparquet";
import { assembleNested } from "hyparquet/src/assemble.js";
import type { ColumnDecoder, ParquetParsers } from "hyparquet/src/types.js";
import type { InputRow, Slice } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { textOf } from "../broken-text.ts";
import type { RowReadOptions } from "../format.ts";
import { RowBatch } from "../row-batch.ts";
import { chosenColumns, tableRow } from "../table-rows.ts";
import { unreadable } from "../unreadable.ts";
import { decompressorsOf } from "./decompressors.ts";
import { type Footer, type GroupPlace, hasNullCounts, isColumnOf, messageOf } from "./footer.ts";
import { type ChunkBytes, GroupLoader } from "./group-bytes.ts";
import { LeafPages } from "./leaf-pages.ts";
import { schemaNodes } from "./raw-schema.ts";
import { footerAsPlanned, groupsOf, verify } from "./slice-groups.ts";
import { type TableColumn, tableOf } from "./table.ts";

/** Rows that are made at a time: few enough to be garbage-collected young. */
const windowRows = 256;

/**
 * The rows of some row groups, or of parts of them. Memory holds the bytes of one row group (of
 * `options.columns` only), and a decoded page of each column.
 *
 * @throws SluiceError `INPUT_CHANGED`, `INPUT_UNREADABLE` if pages are damaged.
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
  try {
    for (const [number, group] of reading.groups.entries()) {
      const { chunks, digests: own } = await loader.load(reading.columnsOf(group));
      digests.push(...own);
      const rest = reading.groups.slice(number + 1);
      if (rest.length === 0) verify(reading.footer, digests, slice);
      try {
        yield* reading.rowsOf(group, chunks, decompressors);
      } catch (error) {
        // A group that cannot be decoded may have changed since planning, which the checksum tells.
        for (const later of rest) {
          digests.push(...(await loader.load(reading.columnsOf(later))).digests);
        }
        verify(reading.footer, digests, slice);
        throw error;
      }
    }
  } finally {
    loader.close();
  }
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
    this.groups = groupsOf(footer, slice);
    this.codecs = new Set(this.groups.flatMap(({ columns }) => columns.map(({ codec }) => codec)));
    this.#slice = slice;
    this.#options = options;
    this.#root = schemaNodes(footer.metadata).raw;
    this.#columns = chosenColumns(
      tableOf(footer.metadata, slice.file),
      slice.file,
      options.columns,
    );
    this.#index = firstIndex;
    this.#skip = slice.skipRows ?? 0;
    this.#line = slice.firstLine + this.#skip;
    this.#left = slice.rows;
  }

  /** The columns of a row group that are read. */
  columnsOf(group: GroupPlace): ColumnMetaData[] {
    return group.columns.filter(isColumnOf(this.#options.columns));
  }

  *rowsOf(
    group: GroupPlace,
    chunks: readonly ChunkBytes[],
    decompressors: Compressors,
  ): Generator<InputRow[]> {
    const columns = this.#columns.map((table) => {
      const own = chunks.filter(({ meta }) => meta.path_in_schema[0] === table.column.name);
      return this.#guarded(group, table, undefined, () => {
        if (own.length === 0) throw new Error("it is missing");
        const { metadata } = this.footer;
        return new ColumnRows(table, this.#root, own, decompressors, hasNullCounts(metadata));
      });
    });
    const skip = this.#skip;
    this.#skip = 0;
    let left = Math.min(group.rows - skip, this.#left);
    const isToEnd = skip + left === group.rows;
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
    if (isToEnd) {
      for (const rows of columns) this.#guarded(group, rows.table, rows, () => rows.end());
    }
    if (!batch.isEmpty) yield batch.take();
  }

  /** Adds the place in the file to an error of the library. */
  #guarded<Result>(
    group: GroupPlace,
    { column }: TableColumn,
    rows: ColumnRows | undefined,
    decode: () => Result,
  ): Result {
    const place = `row group ${group.number}, column ${column.name}`;
    this.#options.onPlace?.(place);
    try {
      return decode();
    } catch (cause) {
      const page = rows ? `, page ${rows.page}` : "";
      throw unreadable(this.#slice.file, `${place}${page}: ${messageOf(cause)}`, { cause });
    }
  }

  #row(values: readonly ArrayLike<unknown>[], at: number): InputRow {
    const place = { index: this.#index++, file: this.#slice.file, line: this.#line++ };
    return tableRow(this.#columns, values, at, place, this.#options);
  }
}

const asItIs = <Value>(value: Value): Value => value;

/** Keeps values as they are stored, except text. */
const parsers: ParquetParsers = {
  stringFromBytes: (bytes) => (bytes === undefined ? bytes : textOf(bytes)),
  timestampFromMilliseconds: asItIs,
  timestampFromMicroseconds: asItIs,
  timestampFromNanoseconds: asItIs,
  dateFromDays: asItIs,
  jsonFromBytes: asItIs,
  geometryFromBytes: asItIs,
  geographyFromBytes: asItIs,
  uuidFromBytes: asItIs,
};

/** The rows of one column of a row group, in order. */
class ColumnRows {
  readonly table: TableColumn;
  readonly #tree: SchemaTree;
  readonly #leaves: { path: string; pages: LeafPages }[];

  /**
   * @param root the root of the schema that the library gets.
   * @param hasNullCounts whether the file counts the nulls of flat columns right.
   */
  constructor(
    table: TableColumn,
    root: SchemaTree,
    chunks: readonly ChunkBytes[],
    compressors: Compressors,
    hasNullCounts: boolean,
  ) {
    this.table = table;
    this.#tree = table.node.raw;
    this.#leaves = chunks.map((chunk) => ({
      path: chunk.meta.path_in_schema.join("."),
      pages: new LeafPages(decoderOf(root, chunk.meta, compressors), chunk, hasNullCounts),
    }));
  }

  /** Number of the page that was read last, for the place of a fault. */
  get page(): number {
    return Math.max(...this.#leaves.map(({ pages }) => pages.page));
  }

  skip(count: number): void {
    for (const { pages } of this.#leaves) pages.skip(count);
  }

  /** @throws Error unless all values of the pages were taken. */
  end(): void {
    for (const { pages } of this.#leaves) pages.end();
  }

  take(count: number): DecodedArray {
    if (this.#tree.children.length === 0) return this.#leaves[0]!.pages.take(count);
    const values = new Map(this.#leaves.map(({ path, pages }) => [path, pages.take(count)]));
    assembleNested(values, this.#tree, parsers);
    return values.get(this.#tree.path.join("."))!;
  }
}

function decoderOf(
  root: SchemaTree,
  meta: ColumnMetaData,
  compressors: Compressors,
): ColumnDecoder {
  const schemaPath = [root];
  for (const part of meta.path_in_schema) {
    const child = schemaPath.at(-1)!.children.find(({ element }) => element.name === part);
    if (!child) throw new Error("it is not in the schema");
    schemaPath.push(child);
  }
  const { type, codec, path_in_schema: pathInSchema } = meta;
  const { element } = schemaPath.at(-1)!;
  return { pathInSchema, type, element, schemaPath, codec, parsers, compressors, utf8: false };
}
