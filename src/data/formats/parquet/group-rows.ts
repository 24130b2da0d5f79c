import type { ColumnMetaData, Compressors, DecodedArray, SchemaTree } from "hyparquet";
import { assembleNested } from "hyparquet/src/assemble.js";
import type { ColumnDecoder, ParquetParsers } from "hyparquet/src/types.js";
import { textOf } from "../broken-text.ts";
import type { ChunkBytes } from "./group-bytes.ts";
import { LeafPages } from "./leaf-pages.ts";
import type { TableColumn } from "./table.ts";

const asItIs = <Value>(value: Value): Value => value;

/** Values as they are stored, but text. */
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
export class ColumnRows {
  readonly table: TableColumn;
  readonly #tree: SchemaTree;
  readonly #leaves: { path: string; pages: LeafPages }[];

  /**
   * @param root the schema's root, as the library is told of it.
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

  /** Pages that were read, for the place of a fault. */
  get page(): number {
    return Math.max(...this.#leaves.map(({ pages }) => pages.page));
  }

  skip(count: number): void {
    for (const { pages } of this.#leaves) pages.skip(count);
  }

  /** @throws Error unless all that the pages hold was taken. */
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
