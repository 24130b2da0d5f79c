// @ts-expect-error: the package types only its index, which would load its writer too
import { setCompressionCodec } from "@uwdata/flechette/src/compression.js";
// @ts-expect-error
import * as dataTypes from "@uwdata/flechette/src/data-types.js";
// @ts-expect-error
import { decodeRecordBatch as libraryBatch } from "@uwdata/flechette/src/decode/record-batch.js";
// @ts-expect-error
import { decodeSchema as librarySchema } from "@uwdata/flechette/src/decode/schema.js";
// @ts-expect-error
import { createTable } from "@uwdata/flechette/src/decode/table-from-ipc.js";
import { decompressLz4Frame, decompressZstd } from "./decompress.ts";

/** Names of Arrow's types, by their numbers in the format. */
export const typeIds = {
  dictionary: -1,
  null: 1,
  int: 2,
  float: 3,
  binary: 4,
  text: 5,
  boolean: 6,
  decimal: 7,
  date: 8,
  time: 9,
  timestamp: 10,
  interval: 11,
  list: 12,
  struct: 13,
  union: 14,
  fixedBytes: 15,
  fixedList: 16,
  map: 17,
  duration: 18,
  largeBinary: 19,
  largeText: 20,
  largeList: 21,
  runs: 22,
  binaryView: 23,
  textView: 24,
  listView: 25,
  largeListView: 26,
} as const;

/** A type of Arrow from the library. Which fields it has depends on the type. */
export interface ArrowType {
  typeId: number;
  bitWidth?: 8 | 16 | 32 | 64 | 128 | 256;
  signed?: boolean;
  precision?: number;
  scale?: number;
  unit?: number;
  timezone?: string | null;
  stride?: number;
  children?: ArrowField[];
  /** A dictionary's id, and the types of its keys and values. */
  id?: number;
  indices?: ArrowType;
  dictionary?: ArrowType;
}

export interface ArrowField {
  name: string;
  type: ArrowType;
  nullable: boolean;
  metadata: ReadonlyMap<string, string> | null;
}

export interface ArrowSchema {
  version: number;
  endianness: number;
  fields: ArrowField[];
}

/** The part of a typed array that the checks of a batch need. */
export type NumberBuffer = ArrayLike<number | bigint>;

/** The values of one column in one record batch, as views of its buffers. */
export interface ColumnBatch {
  type: ArrowType;
  length: number;
  nullCount: number;
  validity?: Uint8Array;
  values?: NumberBuffer;
  offsets?: NumberBuffer;
  sizes?: NumberBuffer;
  /** Data buffers of a view type. */
  data?: readonly Uint8Array[];
  children?: readonly ColumnBatch[];
  slice(start: number, end: number): ArrayLike<unknown>;
}

/** Types that make the library return stored values, neither rounded nor decoded. */
export const rawTypes = dataTypes as {
  int(bits: number, isSigned: boolean): ArrowType;
  binary(): ArrowType;
  largeBinary(): ArrowType;
  binaryView(): ArrowType;
  struct(fields: readonly ArrowField[]): ArrowType;
};

setCompressionCodec(0, { decode: decompressLz4Frame });
setCompressionCodec(1, { decode: decompressZstd });

const exactly = { useBigInt: true, useBigIntTimestamp: true, useDecimalInt: true };

/** The schema that the bytes at `place` refer to. */
export const decodeSchema = librarySchema as (
  bytes: Uint8Array,
  place: number,
  version: number,
) => ArrowSchema;

/**
 * The columns of a record batch. The bytes at `place` refer to its metadata.
 *
 * @param fields with raw types.
 * @throws Error if the buffers do not match the metadata.
 */
export function decodeBatch(
  fields: readonly ArrowField[],
  { metadata, place, version }: { metadata: Uint8Array; place: number; version: number },
  body: Uint8Array,
): ColumnBatch[] {
  const batch = { ...libraryBatch(metadata, place, version), body };
  const schema = { version, endianness: 0, fields };
  const table = createTable({ schema, dictionaries: [], records: [batch] }, exactly) as {
    children: { data: [ColumnBatch] }[];
  };
  return table.children.map(({ data }) => data[0]);
}
