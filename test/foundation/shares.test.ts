import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eachIndex } from "../../src/foundation/index-set.ts";
import { parseShare, shareOf, shares } from "../../src/foundation/shares.ts";

const totals = fc.nat({ max: 500 });
const counts = fc.integer({ min: 1, max: 40 });
const sum = (numbers: readonly number[]) => numbers.reduce((all, number) => all + number, 0);

describe("shares", () => {
  it("loses none of 200 over 16, as flooring does", () => {
    const found = shares(200, 16);
    expect(found).toEqual([...Array(8).fill(13), ...Array(8).fill(12)]);
    expect(sum(found)).toBe(200);
    expect(Math.floor(200 / 16) * 16).toBe(192);
  });

  it("sum to the total, balanced to within one, the larger first", () => {
    fc.assert(
      fc.property(fc.nat({ max: 1e9 }), counts, (total, takers) => {
        const found = shares(total, takers);
        expect(found).toHaveLength(takers);
        expect(sum(found)).toBe(total);
        expect(found.at(0)! - found.at(-1)!).toBeLessThanOrEqual(1);
        expect(found).toEqual(found.toSorted((a, b) => b - a));
      }),
    );
  });

  it("leaves no taker empty where there are as many things", () => {
    fc.assert(
      fc.property(totals, counts, (more, takers) => {
        expect(shares(takers + more, takers)).not.toContain(0);
      }),
    );
    expect(shares(2, 4)).toEqual([1, 1, 0, 0]);
    expect(shares(0, 3)).toEqual([0, 0, 0]);
  });

  it("refuses what is no count", () => {
    for (const [total, takers] of [
      [-1, 2],
      [1, 0],
      [1.5, 2],
      [2, 1.5],
      [2, -3],
      [NaN, 1],
    ] as const) {
      expect(() => shares(total, takers), `${total}, ${takers}`).toThrow(
        expect.objectContaining({ name: "SluiceError", code: "USAGE" }),
      );
    }
  });
});

describe("shareOf", () => {
  it("partitions all things: none left out, none twice, in order", () => {
    fc.assert(
      fc.property(totals, counts, (total, takers) => {
        const each = Array.from({ length: takers }, (_, index) => shareOf(total, index, takers));
        const all = [...eachIndex(each.filter((share) => share !== undefined))];
        expect(all).toEqual(Array.from({ length: total }, (_, index) => index));
      }),
    );
  });

  it("is as large as shares says", () => {
    fc.assert(
      fc.property(totals, counts, (total, takers) => {
        const sizes = Array.from({ length: takers }, (_, index) => {
          const share = shareOf(total, index, takers);
          return share === undefined ? 0 : share.last - share.first + 1;
        });
        expect(sizes).toEqual(shares(total, takers));
      }),
    );
  });

  it("leaves late shares empty when there are too few things", () => {
    expect(shareOf(10, 3, 16)).toEqual({ first: 3, last: 3 });
    expect(shareOf(10, 10, 16)).toBeUndefined();
  });
});

describe("parseShare", () => {
  it("reads which share of how many", () => {
    expect(parseShare("3/16")).toEqual({ index: 3, takers: 16 });
    expect(parseShare("0/1")).toEqual({ index: 0, takers: 1 });
  });

  it("refuses what is no share", () => {
    for (const text of ["", "3", "16/16", "-1/4", "1/0", "1/4/2", "a/b", " 1/2"]) {
      expect(() => parseShare(text), text).toThrow(
        expect.objectContaining({ name: "SluiceError", code: "USAGE" }),
      );
    }
  });
});
