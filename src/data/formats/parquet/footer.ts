import type { ColumnMetaData, FileMetaData, RowGroup, SchemaTree } from "hyparquet";
import { parquetMetadata, parquetSchema } from "hyparquet";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { unreadable } from "../unreadable.ts";
import { supportedCodecs } from "./decompressors.ts";

/** The metadata at the end of a Parquet file. */
export interface Footer {
  metadata: FileMetaData;
  groups: GroupPlace[];
  /** The footer's bytes in the file. */
  bytes: Uint8Array;
}

export interface GroupPlace {
  /** Number of the group, from 1. */
  number: number;
  start: number;
  end: number;
  rows: number;
  columns: ColumnMetaData[];
}

/** The footer's length and `PAR1` end every file. */
const trailerBytes = 8;
/** Bytes of the first read; it contains most footers. */
const tailBytes = 64 * 1024;

/** Statistics are not used here, and a truncated one may not be valid for its type. */
const asTheyAre = (value: unknown): unknown => value;
const rawStatistics = {
  stringFromBytes: asTheyAre,
  dateFromDays: asTheyAre,
  timestampFromMilliseconds: asTheyAre,
  timestampFromMicroseconds: asTheyAre,
  timestampFromNanoseconds: asTheyAre,
  uuidFromBytes: asTheyAre,
};

/**
 * Reads the footer. Checks that its row groups lie within the file, and that all its counts agree.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if the file is truncated, damaged, or not Parquet.
 */
export async function readFooter(reader: RandomReader, file: string): Promise<Footer> {
  if (!Number.isFinite(reader.bytes)) {
    const hint = "decompress it first: Parquet compresses its own pages";
    throw unreadable(file, "a Parquet file cannot be read within another compression", { hint });
  }
  const bytes = await footerBytes(reader, file);
  let metadata: FileMetaData;
  let leaves: Leaf[];
  try {
    metadata = parquetMetadata(bytes, { parsers: rawStatistics, geoparquet: false });
    leaves = leavesOf(parquetSchema(metadata));
  } catch (cause) {
    const place = `its footer, bytes ${reader.bytes - bytes.length} to the end`;
    throw unreadable(file, `${place}, is damaged: ${messageOf(cause)}`, { cause });
  }
  checkCounts(metadata, leaves, file);
  return { metadata, groups: placesOf(metadata, reader.bytes - bytes.length, file), bytes };
}

async function footerBytes(reader: RandomReader, file: string): Promise<Uint8Array> {
  if (reader.bytes < trailerBytes + 4) {
    throw unreadable(file, `it has ${reader.bytes} bytes: it is truncated, or no Parquet file`);
  }
  const tailStart = Math.max(0, reader.bytes - tailBytes);
  const tail = Buffer.from(await reader.read(tailStart, reader.bytes - tailStart));
  const mark = tail.toString("latin1", tail.length - 4);
  if (mark === "PARE") throw unreadable(file, "it is encrypted", { hint: "decrypt it first" });
  if (mark !== "PAR1" || tail.length < Math.min(tailBytes, reader.bytes)) {
    const where = `no footer ends at byte ${reader.bytes}`;
    throw unreadable(file, `${where}: it is truncated, or no Parquet file`);
  }
  const length = tail.readUInt32LE(tail.length - trailerBytes) + trailerBytes;
  if (length > reader.bytes - 4) {
    throw unreadable(file, `its footer says it has ${length} bytes, the file ${reader.bytes}`);
  }
  if (length > limits.maxParquetFooterBytes) {
    throw unreadable(file, `its footer of ${length} bytes exceeds the limit of Sluice`);
  }
  if (length <= tail.length) return tail.subarray(tail.length - length);
  return await reader.read(reader.bytes - length, length);
}

/** A leaf of the schema: each row group has a column of it. */
interface Leaf {
  name: string;
  /** True if a row may have several values of it. */
  isRepeated: boolean;
}

function leavesOf({ element, children, path }: SchemaTree, isInList = false): Leaf[] {
  const isRepeated = isInList || element.repetition_type === "REPEATED";
  if (path.length > 0 && children.length === 0) return [{ name: path.join("."), isRepeated }];
  return children.flatMap((child) => leavesOf(child, isRepeated));
}

/**
 * A file states its number of rows in several places. If one of them were damaged, rows would be
 * missing in silence.
 */
function checkCounts({ num_rows, row_groups }: FileMetaData, leaves: Leaf[], file: string): void {
  let total = 0;
  for (const [at, { columns, num_rows: groupRows }] of row_groups.entries()) {
    const group = `row group ${at + 1}`;
    const rows = Number(groupRows);
    if (!(rows >= 0 && rows <= limits.maxRowGroupRows)) {
      throw unreadable(file, `its footer is damaged: ${group} has ${groupRows} rows`);
    }
    if (columns.length !== leaves.length) {
      const detail = `${group} has ${columns.length} columns, the schema ${leaves.length}`;
      throw unreadable(file, `its footer is damaged: ${detail}`);
    }
    for (const [number, { name, isRepeated }] of leaves.entries()) {
      const { meta_data } = columns[number]!;
      const values = meta_data ? meta_data.num_values : groupRows;
      if (isRepeated ? values >= groupRows : values === groupRows) continue;
      const detail = `${group} has ${rows} rows, its column ${name} ${values} values`;
      throw unreadable(file, `its footer is damaged: ${detail}`);
    }
    total += rows;
  }
  if (Number(num_rows) === total) return;
  const detail = `it says that the file has ${num_rows} rows, its row groups have ${total}`;
  throw unreadable(file, `its footer is damaged: ${detail}`);
}

function placesOf(metadata: FileMetaData, dataEnd: number, file: string): GroupPlace[] {
  const groups = metadata.row_groups.map((group, at) => placeOf(group, at + 1, file));
  const filled = groups.filter(({ rows }) => rows > 0);
  let before = 0;
  for (const { number, start, end } of filled) {
    const place = `row group ${number}, bytes ${start} to ${end}`;
    if (end > dataEnd) throw unreadable(file, `${place}, lies beyond the data: it is truncated`);
    if (start < before) throw unreadable(file, `${place}, overlaps the one before it`);
    before = end;
  }
  return filled;
}

function placeOf(group: RowGroup, number: number, file: string): GroupPlace {
  const columns = group.columns.map(({ meta_data, file_path, crypto_metadata }, at) => {
    const place = `row group ${number}, column ${at + 1}`;
    if (file_path) throw unreadable(file, `${place} lies in another file, ${file_path}`);
    if (!meta_data || crypto_metadata) throw unreadable(file, `${place} is encrypted`);
    const { codec, path_in_schema: path } = meta_data;
    if (!supportedCodecs.includes(codec)) {
      const hint = "write it with snappy, gzip or zstd";
      throw unreadable(file, `column ${path.join(".")} is compressed by ${codec}`, { hint });
    }
    return meta_data;
  });
  const places = columns.map(chunkPlace);
  // A row group without columns has no place in the file.
  const start = places.reduce(
    (least, place) => Math.min(least, place.start),
    places[0]?.start ?? 0,
  );
  const end = places.reduce((most, place) => Math.max(most, place.end), start);
  const bytes = places.reduce((sum, place) => sum + place.end - place.start, 0);
  if (!(start >= 0) || bytes > end - start || places.some((place) => place.end < place.start)) {
    throw unreadable(file, `its footer is damaged: columns of row group ${number} overlap`);
  }
  return { number, start, end, rows: Number(group.num_rows), columns };
}

/** Makes a test for parts of the named columns; without names, for all. */
export function isColumnOf(
  names: readonly string[] | undefined,
): (column: Pick<ColumnMetaData, "path_in_schema">) => boolean {
  const kept = names && new Set(names);
  return ({ path_in_schema: [name] }) => kept === undefined || kept.has(name!);
}

/**
 * True if the writer of a file counts the nulls of flat columns right in statistics and pages. Some
 * were wrong: Polars counted nulls once per page, Arrow before 6.0 and parquet-rs before 5.0 missed
 * dictionaries and columns of nulls, and parquet-java wrote -1. Pages of Arrow before 12.0 missed
 * nulls too.
 */
export function hasNullCounts({ created_by: writer = "" }: FileMetaData): boolean {
  return Number(/^parquet-cpp-arrow version (\d+)\./.exec(writer)?.[1]) >= 12;
}

/** The byte range of one column of a row group. */
export function chunkPlace(column: ColumnMetaData): { start: number; end: number } {
  const { dictionary_page_offset: dictionary, data_page_offset: data } = column;
  // Some writers set 0 if there is no dictionary.
  const start = Number(dictionary && dictionary < data ? dictionary : data);
  return { start, end: start + Number(column.total_compressed_size) };
}

/** A library's message without the library's name at its start. */
export function messageOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return message.replace(/^parquet /, "");
}
