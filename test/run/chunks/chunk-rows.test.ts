import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import { chunkRows } from "../../../src/run/chunks/write-chunks.ts";

const sum = (numbers: readonly number[]) => numbers.reduce((all, number) => all + number, 0);

describe("chunkRows", () => {
  it("balances a number of chunks to within a row, none left out", () => {
    fc.assert(
      fc.property(fc.nat(1e6), fc.integer({ min: 1, max: 300 }), (rows, chunks) => {
        const found = chunkRows(rows, { chunks });
        expect(found).toHaveLength(chunks);
        expect(sum(found)).toBe(rows);
        expect(Math.max(...found) - Math.min(...found)).toBeLessThanOrEqual(1);
        if (rows >= chunks) expect(found).not.toContain(0);
      }),
    );
  });

  it("gives chunks exactly the asked rows, and the last the rest", () => {
    fc.assert(
      fc.property(fc.nat(10_000), fc.integer({ min: 1, max: 500 }), (total, rows) => {
        const found = chunkRows(total, { rows });
        expect(sum(found)).toBe(total);
        expect(found.slice(0, -1).every((size) => size === rows)).toBe(true);
        if (total > 0) expect(found).not.toContain(0);
      }),
    );
    expect(chunkRows(2014, { rows: 1000 })).toEqual([1000, 1000, 14]);
    expect(chunkRows(0, { rows: 5 })).toEqual([0]);
  });

  it("refuses more chunks than a folder is to hold", () => {
    for (const size of [{ chunks: limits.maxChunks + 1 }, { rows: 1 }]) {
      expect(() => chunkRows(limits.maxChunks + 1, size)).toThrow(
        expect.objectContaining({ code: "USAGE" }),
      );
    }
  });
});
