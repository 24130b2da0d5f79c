// @ts-expect-error: the package has types of its index alone, which loads its writer as well
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

/** Names of Arrow's types, by the numbers that the format gives them. */
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

/** A type of Arrow as the library tells it; which fields it has depends on the type. */
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
  /** A dictionary's number, keys and values. */
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

/** What a typed array has that buffers of a batch are looked at by. */
export type NumberBuffer = ArrayLike<number | bigint>;

/** The values of one column in one record batch, over the buffers they lie in. */
export interface ColumnBatch {
  type: ArrowType;
  length: number;
  nullCount: number;
  validity?: Uint8Array;
  values?: NumberBuffer;
  offsets?: NumberBuffer;
  sizes?: NumberBuffer;
  /** Buffers of views. */
  data?: readonly Uint8Array[];
  children?: readonly ColumnBatch[];
  slice(start: number, end: number): ArrayLike<unknown>;
}

/** Types of stored values: by these the library neither rounds nor decodes. */
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

/** The schema to whose offset the bytes at `place` refer. */
export const decodeSchema = librarySchema as (
  bytes: Uint8Array,
  place: number,
  version: number,
) => ArrowSchema;

/**
 * The columns of a record batch, whose metadata the bytes at `place` refer to.
 *
 * @param fields with raw types.
 * @throws Error where the buffers are not as the metadata say.
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
