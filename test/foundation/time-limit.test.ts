import { describe, expect, it } from "vitest";
import { withinPatternTime, withinTime } from "../../src/foundation/time-limit.ts";

const catastrophic = /^(?:(\w+\s?)+)$/u;
const nearly = `${"a".repeat(60)}!`;

describe("withinTime", () => {
  it("gives what is computed in time, and what is thrown", () => {
    expect(withinTime(10_000, () => [1])).toEqual({ value: [1] });
    const error = new TypeError("no");
    expect(() =>
      withinTime(10_000, () => {
        throw error;
      }),
    ).toThrow(error);
  });

  it("ends what computes for ever, within a pattern and within a loop that catches all", () => {
    expect(withinTime(50, () => catastrophic.test(nearly))).toBeUndefined();
    let caught = 0;
    const loop = () => {
      for (;;) {
        try {
          for (;;);
        } catch {
          caught++;
        }
      }
    };
    expect(withinTime(50, loop)).toBeUndefined();
    expect(caught).toBe(0);
    expect(withinTime(10_000, () => 2)).toEqual({ value: 2 });
  });
});

describe("withinPatternTime", () => {
  it("names the patterns that are too slow", () => {
    const patterns = ["a: (\\w+\\s?)+", "b: x", "c: x", "d: x"];
    expect(withinPatternTime(patterns, () => true)).toBe(true);
    expect(() => withinPatternTime(patterns, () => catastrophic.test(nearly))).toThrow(
      /took too long .*: a: \(\\w\+\\s\?\)\+; b: x; c: x; …: over 1 s/,
    );
  });
});
