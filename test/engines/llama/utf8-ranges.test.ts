import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { utf8Ranges } from "../../../src/engines/llama/grammar-automaton.ts";

function matches(ranges: ReturnType<typeof utf8Ranges>, code: number): number {
  const bytes = Buffer.from(String.fromCodePoint(code));
  return ranges.filter(
    (sequence) =>
      sequence.length === bytes.length &&
      sequence.every(({ from, to }, at) => bytes[at]! >= from && bytes[at]! <= to),
  ).length;
}

const codePoint = fc.oneof(
  fc.integer({ min: 0, max: 0x10ffff }),
  fc.constantFrom(0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff),
);
const isSurrogate = (code: number) => code >= 0xd800 && code <= 0xdfff;

describe("utf8Ranges", () => {
  it("holds the encoding of each code point of the range once, and of no other", () =>
    fc.assert(
      fc.property(codePoint, codePoint, codePoint, (a, b, probe) => {
        const [from, to] = [Math.min(a, b), Math.max(a, b)];
        const ranges = utf8Ranges(from, to);
        for (const code of [from, to, probe]) {
          if (isSurrogate(code)) continue;
          expect(matches(ranges, code)).toBe(code >= from && code <= to ? 1 : 0);
        }
      }),
      { numRuns: 500 },
    ));

  it("is small for all that a JSON text may hold", () => {
    expect(utf8Ranges(0x20, 0x10ffff).length).toBeLessThan(12);
    expect(utf8Ranges(5, 4)).toEqual([]);
  });
});
