import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, isJsonObject } from "../../src/foundation/json.ts";

/** The same value with the keys of every object in reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, inner]) => [key, reversed(inner)])
      .reverse(),
  );
}

describe("isJsonObject", () => {
  it("takes objects and nothing else", () => {
    const values = [{}, { a: 1 }, null, [], [1], "x", 1, true, undefined];
    expect(values.map(isJsonObject)).toEqual([
      ...[true, true],
      ...[false, false, false, false, false, false, false],
    ]);
  });
});

describe("canonicalJson", () => {
  it("sorts keys at every level and leaves lists as they are", () => {
    expect(canonicalJson({ b: 1, a: [{ d: 2, c: 3 }, "x"] })).toBe(
      '{"a":[{"c":3,"d":2},"x"],"b":1}',
    );
  });

  it("does not depend on the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(canonicalJson(reversed(value))).toBe(canonicalJson(value));
      }),
    );
  });

  it("is JSON of the same value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});
