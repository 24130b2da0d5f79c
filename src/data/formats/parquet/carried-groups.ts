import type { Column, ColumnType } from "../../column-types.ts";
import type { Slice } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { ChunkStream, Window } from "./chunk-stream.ts";
import type { CopiedChunk } from "./copied-chunk.ts";
import { decompressorsOf } from "./decompressors.ts";
import { type GroupPlace, hasNullCounts, isColumnOf } from "./footer.ts";
import { type SchemaNode, schemaNodes } from "./raw-schema.ts";
import { footerAsPlanned, groupsOf, verify } from "./slice-groups.ts";
import { type TableColumn, tableOf } from "./table.ts";
import { writtenSchema } from "./written-schema.ts";

/** Smallest and largest row group that results copy, in uncompressed bytes. */
const minCarriedGroupBytes = 64 * 1024;
const maxCarriedGroupBytes = 128 * 1024 * 1024;

/** Columns of rows that are copied from another file without decoding. */
export interface CarriedGroup {
  rows: number;
  /** Column chunks by column name, in the order of the column's leaves. */
  columns: ReadonlyMap<string, readonly CopiedChunk[]>;
}

/** Which rows and columns of a slice to copy. */
export interface Carrying {
  /** Columns of the input that rows keep; undefined = all. */
  kept: readonly string[] | undefined;
  /** Columns of the output file. */
  columns: readonly Column[];
  /** True for columns whose values are new, even if the input has them. */
  isWritten(name: string): boolean;
  /** Whether all of `rows` rows from `first` on (from the slice's first) go to the output. */
  areWhole(first: number, rows: number): boolean;
  /** Least uncompressed size of a row group; default `minCarriedGroupBytes`. */
  minGroupBytes?: number;
}

/** Rows of a slice, with their columns if these can be copied. */
export interface SliceStretch {
  rows: number;
  carried?: CarriedGroup;
}

/**
 * The rows of a slice in order, with the columns of each row group that the output can copy. A
 * value is valid until the next one is requested. Trust the copies only after the last value: then
 * the checksum has been compared.
 *
 * @throws SluiceError `INPUT_CHANGED`
 */
export async function* carriedGroups(
  reader: RandomReader,
  slice: Slice,
  carrying: Carrying,
): AsyncGenerator<SliceStretch> {
  const footer = await footerAsPlanned(reader, slice);
  const groups = groupsOf(footer, slice);
  const rows = groups.reduce((sum, group) => sum + group.rows, 0);
  const { kept, minGroupBytes = minCarriedGroupBytes } = carrying;
  const table = tableOf(footer.metadata, slice.file).filter(
    ({ column }) => !carrying.isWritten(column.name) && (!kept || kept.includes(column.name)),
  );
  const paths = pathsOf(table, carrying.columns);
  // If slices share a group, each has only a part of its rows.
  if (slice.skipRows || rows !== slice.rows || !paths) return yield { rows: slice.rows };
  const codecs = new Set(groups.flatMap(({ columns }) => columns.map(({ codec }) => codec)));
  const options = {
    decompressors: await decompressorsOf(codecs),
    keepsNulls: hasNullCounts(footer.metadata),
  };
  const window = new Window();
  const digests: Uint8Array[] = [];
  let first = 0;
  for (const group of groups) {
    const streams = group.columns
      .filter(isColumnOf(kept))
      .map((meta) => new ChunkStream(reader, slice.file, meta, window));
    const isCarried = isFit(group, paths, minGroupBytes) && carrying.areWhole(first, group.rows);
    const carried = isCarried && carriedGroup(group, streams, paths, options);
    yield { rows: group.rows, ...(carried && { carried }) };
    for (const stream of streams) digests.push(await stream.digest());
    first += group.rows;
  }
  verify(footer, digests, slice);
}

/** For each copied column, the paths of its leaves in the output's schema. */
type Paths = Map<string, { paths: string[][]; keepsBounds: boolean }>;

/** Undefined if the input stores a column differently than the output would. */
function pathsOf(table: readonly TableColumn[], columns: readonly Column[]): Paths | undefined {
  const written = schemaNodes({ schema: writtenSchema(columns) }).children;
  const found: Paths = new Map();
  for (const { column, node } of table) {
    const at = columns.findIndex(({ name }) => name === column.name);
    if (at < 0 || !isSameType(column.type, columns[at]!.type)) return undefined;
    const leaves = leavesOf(written[at]!);
    if (levelsText(leaves) !== levelsText(leavesOf(node))) return undefined;
    const paths = leaves.map(({ path }) => path);
    found.set(column.name, { paths, keepsBounds: boundedKinds.has(column.type.kind) });
  }
  // A row group needs a column of its own, which tells its number of rows.
  return found.size < columns.length ? found : undefined;
}

/** Types whose bounds the library returns exactly as in the file. */
const boundedKinds = new Set(["boolean", "integer", "number", "string", "date", "timestamp"]);

function isSameType(a: ColumnType, b: ColumnType): boolean {
  // Whether 64-bit whole numbers are large does not change how a column is stored.
  const shape = (type: ColumnType) =>
    JSON.stringify(type, (key, value: unknown) => (key === "isWide" ? undefined : value));
  return shape(a) === shape(b);
}

interface Leaf {
  path: string[];
  /** What decides how its pages are read. */
  form: string;
}

function leavesOf(node: SchemaNode, above: readonly string[] = [], levels = ""): Leaf[] {
  const { name, repetition_type: repetition, type, type_length: length } = node.element;
  const path = [...above, name];
  const own = repetition === "REQUIRED" ? levels : `${levels} ${repetition}`;
  if (node.children.length > 0) return node.children.flatMap((it) => leavesOf(it, path, own));
  return [{ path, form: `${type} ${type === "FIXED_LEN_BYTE_ARRAY" ? length : ""}${own}` }];
}

function levelsText(leaves: readonly Leaf[]): string {
  return leaves.map(({ form }) => form).join("\n");
}

/** Small groups are better joined with others, and large ones divided. */
function isFit({ columns }: GroupPlace, paths: Paths, minBytes: number): boolean {
  const carried = columns.filter(({ path_in_schema: [name] }) => paths.has(name!));
  const bytes = carried.reduce((sum, meta) => sum + Number(meta.total_uncompressed_size), 0);
  return bytes >= minBytes && bytes <= maxCarriedGroupBytes;
}

function carriedGroup(
  { rows }: GroupPlace,
  streams: readonly ChunkStream[],
  all: Paths,
  { decompressors, keepsNulls }: Pick<CopiedChunk, "decompressors" | "keepsNulls">,
): CarriedGroup | undefined {
  const columns = new Map<string, CopiedChunk[]>();
  for (const [name, { paths, keepsBounds }] of all) {
    const own = streams.filter(({ meta }) => meta.path_in_schema[0] === name);
    if (own.length !== paths.length) return undefined;
    columns.set(
      name,
      own.map((stream, at) => ({
        ...{ stream, path: paths[at]!, keepsBounds, decompressors },
        keepsNulls: keepsNulls && stream.meta.path_in_schema.length === 1,
      })),
    );
  }
  return { rows, columns };
}
