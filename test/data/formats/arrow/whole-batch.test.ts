import { describe, expect, it } from "vitest";
import { type ColumnBatch, typeIds } from "../../../../src/data/formats/arrow/library.ts";
import { assertWhole } from "../../../../src/data/formats/arrow/whole-batch.ts";

/** A column of byte strings, none of them null. */
function bytes(offsets: readonly number[], values: number): ColumnBatch {
  return {
    type: { typeId: typeIds.binary },
    ...{ length: offsets.length - 1, nullCount: 0 },
    ...{ offsets: Int32Array.from(offsets), values: new Uint8Array(values) },
  } as unknown as ColumnBatch;
}

describe("buffers of a column of bytes", () => {
  it("are whole where each value lies within them", () => {
    expect(() => assertWhole(bytes([0, 2, 2, 5], 5))).not.toThrow();
  });

  it("are refused where a value ends behind them, or begins before the one before it", () => {
    expect(() => assertWhole(bytes([0, 2, 6], 5))).toThrow("too short");
    expect(() => assertWhole(bytes([0, 3, 2], 5))).toThrow("begins before");
  });
});

describe("the bits that say which values are null", () => {
  const column = (validity: readonly number[], nullCount: number) => ({
    ...bytes(
      Array.from({ length: 11 }, () => 0),
      0,
    ),
    ...{ nullCount, validity: Uint8Array.from(validity) },
  });

  it("are as many as there are values, with as many nulls as it says", () => {
    expect(() => assertWhole(column([0xff, 0x01], 1))).not.toThrow();
    expect(() => assertWhole(column([0xff, 0x01], 2))).toThrow("1 nulls, and says 2");
    expect(() => assertWhole(column([0xff], 2))).toThrow("which values are null");
  });
});
