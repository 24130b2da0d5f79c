import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { editDistance, nearest } from "../../src/foundation/suggest.ts";

describe("editDistance", () => {
  it("counts edits", () => {
    const pairs = [
      ["kitten", "sitting"],
      ["", "abc"],
      ["same", "same"],
    ] as const;
    expect(pairs.map(([from, to]) => editDistance(from, to))).toEqual([3, 3, 0]);
  });

  it("is a distance: symmetric, zero only for equals, no longer than by a detour", () => {
    const word = fc.string({ maxLength: 8 });
    fc.assert(
      fc.property(word, word, word, (a, b, c) => {
        expect(editDistance(a, b)).toBe(editDistance(b, a));
        expect(editDistance(a, b) === 0).toBe(a === b);
        expect(editDistance(a, c)).toBeLessThanOrEqual(editDistance(a, b) + editDistance(b, c));
      }),
    );
  });
});

describe("nearest", () => {
  const keys = ["temperature", "topP", "topK", "maxNewTokens"];

  it("finds what was meant", () => {
    expect(nearest("temprature", keys)).toBe("temperature");
    expect(nearest("TOPP", keys)).toBe("topP");
    expect(nearest("maxTokens", keys)).toBe("maxNewTokens");
  });

  it("says nothing rather than nonsense", () => {
    expect(nearest("colour", keys)).toBeUndefined();
    expect(nearest("x", [])).toBeUndefined();
  });

  it("prefers the closest, and the first of equals", () => {
    expect(nearest("topp", ["topK", "topP"])).toBe("topP");
    expect(nearest("tox", ["toa", "tob"])).toBe("toa");
  });
});
