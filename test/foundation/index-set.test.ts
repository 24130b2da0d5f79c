import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eachIndex, indexSetOf, parseIndexSet, rangesOf } from "../../src/foundation/index-set.ts";

const indexes = fc.uniqueArray(fc.nat({ max: 200 }), { minLength: 1, maxLength: 60 });
const ascending = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b);

describe("parseIndexSet", () => {
  it("sorts and merges", () => {
    expect(parseIndexSet(" 7, 1,3-5,4-6 ")).toEqual([
      { first: 1, last: 1 },
      { first: 3, last: 7 },
    ]);
  });

  it("reads back what is written", () => {
    fc.assert(
      fc.property(indexes, (numbers) => {
        const ranges = parseIndexSet(indexSetOf(numbers));
        expect([...eachIndex(ranges)]).toEqual(ascending(numbers));
      }),
    );
  });

  it("refuses what is no index set", () => {
    const texts = ["", ",", "1,", "a", "-1", "5-3", "1-2-3", "1.5", "1 2", `${2 ** 60}`, "0x1"];
    for (const text of texts) {
      expect(() => parseIndexSet(text), text).toThrow(
        expect.objectContaining({ name: "SluiceError", code: "USAGE" }),
      );
    }
  });
});

describe("rangesOf", () => {
  it("joins neighbours, and forgets order and repetition", () => {
    expect(rangesOf([3, 1, 2, 2, 9])).toEqual([
      { first: 1, last: 3 },
      { first: 9, last: 9 },
    ]);
    expect(rangesOf([])).toEqual([]);
  });

  it("is as short as it can be: ranges never touch", () => {
    fc.assert(
      fc.property(indexes, (numbers) => {
        const ranges = rangesOf(numbers);
        expect(ranges.slice(1).every(({ first }, at) => first > ranges[at]!.last + 1)).toBe(true);
      }),
    );
  });
});
