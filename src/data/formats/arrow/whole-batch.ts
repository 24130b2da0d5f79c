import { type ColumnBatch, type NumberBuffer, typeIds } from "./library.ts";

/**
 * Checks that a column's buffers match its metadata. A damaged buffer would give wrong values in
 * silence.
 *
 * @param length number of values that it must have.
 * @throws Error
 */
export function assertWhole(batch: ColumnBatch, length: number = batch.length): void {
  const { type, nullCount, validity = new Uint8Array(0), children = [] } = batch;
  if (type.stride !== undefined && type.stride < 0)
    throw new Error(`values of ${type.stride} entries`);
  if (batch.length < length) throw new Error(`it has ${batch.length} of ${length} values`);
  if (type.typeId === typeIds.null) return;
  assertNulls(validity, batch.length, nullCount);
  assertValues(batch, children);
  for (const child of children) assertWhole(child);
}

/** With a wrong count, the library would take nulls for values. */
function assertNulls(validity: Uint8Array, length: number, nullCount: number): void {
  if (validity.length === 0 && nullCount === 0) return;
  if (validity.length * 8 < length) throw short("which values are null");
  let nulls = length;
  for (let at = 0; at * 8 < length; at++) {
    const inLength = 0xff >> Math.max(0, (at + 1) * 8 - length);
    for (let bits = validity[at]! & inLength; bits !== 0; bits &= bits - 1) nulls--;
  }
  if (nulls !== nullCount) throw new Error(`it has ${nulls} nulls, and says ${nullCount}`);
}

function assertValues(batch: ColumnBatch, children: readonly ColumnBatch[]): void {
  const { type, length, values = [], offsets = [] } = batch;
  switch (type.typeId) {
    case typeIds.binary:
    case typeIds.largeBinary:
      return assertOffsets(offsets, length, values.length);
    case typeIds.list:
    case typeIds.largeList:
    case typeIds.map:
      return assertOffsets(offsets, length, children[0]!.length);
    case typeIds.listView:
    case typeIds.largeListView:
      return assertViews(batch, children[0]!.length);
    case typeIds.binaryView:
      return assertByteViews(batch);
    case typeIds.fixedList:
      return assertWhole(children[0]!, length * (type.stride ?? 0));
    case typeIds.struct:
      for (const child of children) assertWhole(child, length);
      return;
    case typeIds.runs:
      return assertRuns(length, children);
    default:
      if (values.length < Math.ceil(length * partsOf(batch))) throw short("values");
  }
}

/** Entries of the value buffer for each value. */
function partsOf({ type: { typeId, bitWidth = 64, stride = 1 } }: ColumnBatch): number {
  if (typeId === typeIds.boolean) return 1 / 8;
  if (typeId === typeIds.fixedBytes) return stride;
  return typeId === typeIds.decimal && bitWidth > 64 ? bitWidth / 64 : 1;
}

/** Each value begins where the previous one ends. */
function assertOffsets(offsets: NumberBuffer, length: number, end: number): void {
  if (length === 0) return;
  if (offsets.length <= length) throw short("where values begin");
  let before = 0;
  for (let at = 0; at <= length; at++) {
    const offset = Number(offsets[at]);
    if (!(offset >= before)) throw new Error(`value ${at + 1} begins before the one before it`);
    before = offset;
  }
  if (before > end) throw short("values");
}

function assertViews({ length, offsets = [], sizes = [] }: ColumnBatch, end: number): void {
  if (offsets.length < length || sizes.length < length) throw short("where values begin");
  for (let at = 0; at < length; at++) {
    const [start, size] = [Number(offsets[at]), Number(sizes[at])];
    if (start < 0 || size < 0 || start + size > end) throw short("values");
  }
}

/** A view holds a value of up to 12 bytes; of a longer one it holds the place. */
function assertByteViews({ length, values = [], data = [] }: ColumnBatch): void {
  if (values.length < length * 16) throw short("where values begin");
  const bytes = Buffer.from(values as Uint8Array);
  for (let at = 0; at < length * 16; at += 16) {
    const size = bytes.readInt32LE(at);
    if (size <= 12) continue;
    const buffer = data[bytes.readInt32LE(at + 8)];
    const start = bytes.readInt32LE(at + 12);
    if (!buffer || start < 0 || start + size > buffer.length) throw short("values");
  }
}

function assertRuns(length: number, [ends, values]: readonly ColumnBatch[]): void {
  if (length === 0) return;
  const last = Number(ends!.values?.[ends!.length - 1] ?? 0);
  if (last < length || values!.length < ends!.length) throw short("values");
}

function short(what: string): Error {
  return new Error(`the buffer of ${what} is too short`);
}
