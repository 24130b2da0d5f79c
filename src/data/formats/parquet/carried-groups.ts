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

/** Smallest and largest row group that results take over as it is, in uncompressed bytes. */
const minCarriedGroupBytes = 64 * 1024;
const maxCarriedGroupBytes = 128 * 1024 * 1024;

/** Columns of rows that a file takes over as they lie in another. */
export interface CarriedGroup {
  rows: number;
  /** By column, in the order of its leaves. */
  columns: ReadonlyMap<string, readonly CopiedChunk[]>;
}

/** What of a slice is to be carried. */
export interface Carrying {
  /** Columns that rows keep of the input; undefined = all. */
  kept: readonly string[] | undefined;
  /** Columns of the file that is written. */
  columns: readonly Column[];
  /** Columns whose values are not those of the input, whatever it has. */
  isWritten(name: string): boolean;
  /** Whether the rows from `first` on, counted from the slice's first, are all to be written. */
  areWhole(first: number, rows: number): boolean;
  /** Uncompressed bytes that a row group has at least; default `minCarriedGroupBytes`. */
  minGroupBytes?: number;
}

/** Rows of a slice, and their columns where these can be carried. */
export interface SliceStretch {
  rows: number;
  carried?: CarriedGroup;
}

/**
 * The rows of a slice in order, with the columns of each row group that a file of other columns can
 * take over as it lies there. What it gives is good until the next is asked for, and to be trusted
 * when the last was.
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
  // Where several slices share a group, each has only its own rows.
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

/** The leaves of each carried column, in the file that is written. */
type Paths = Map<string, { paths: string[][]; keepsBounds: boolean }>;

/** Undefined where a column lies in the file in another way than it is written. */
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
  // A row group without any column of its own has no number of rows.
  return found.size < columns.length ? found : undefined;
}

/** Kinds whose bounds the library gives as they are in the file. */
const boundedKinds = new Set(["boolean", "integer", "number", "string", "date", "timestamp"]);

function isSameType(a: ColumnType, b: ColumnType): boolean {
  // A column is the same, however large its whole numbers of 64 bits are.
  const shape = (type: ColumnType) =>
    JSON.stringify(type, (key, value: unknown) => (key === "isWide" ? undefined : value));
  return shape(a) === shape(b);
}

interface Leaf {
  path: string[];
  /** What tells how its pages are read. */
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

/** Small groups are rather joined with others, large ones cut. */
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
