import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonFaultAt } from "../../../src/data/formats/json-fault.ts";

describe("jsonFaultAt", () => {
  it.each([
    ["", 0],
    ["  ", 2],
    ['{"a":1,}', 7],
    ['{"a":1', 6],
    ["{a:1}", 1],
    ["{'a':1}", 1],
    ['{"a" 1}', 5],
    ['{"a":01}', 6],
    ['{"a":-}', 6],
    ['{"a":1.}', 6],
    ['{"a":NaN}', 5],
    ['{"a":nul}', 8],
    ["[1,]", 3],
    ["[,]", 1],
    ["[1}", 2],
    ['"a\nb"', 2],
    ['"\\x"', 2],
    ['"\\u12g4"', 5],
    ['"abc', 4],
    ["{} {}", 3],
    ["[1] x", 4],
  ])("finds where %j breaks: %i", (text, place) => {
    expect(jsonFaultAt(text)).toBe(place);
  });

  it("agrees with JSON.parse on what is JSON", () => {
    const isJson = (text: string) => {
      try {
        JSON.parse(text);
        return true;
      } catch {
        return false;
      }
    };
    const edited = fc
      .tuple(fc.json(), fc.nat(), fc.constantFrom("", ",", "]", "}", '"', "\\", "1", "e", " ", "{"))
      .map(([text, place, piece]) => {
        const at = place % (text.length + 1);
        return text.slice(0, at) + piece + text.slice(at + (place % 2));
      });
    fc.assert(
      fc.property(fc.oneof(fc.json(), edited), (text) => {
        expect(jsonFaultAt(text) === -1).toBe(isJson(text));
      }),
      { numRuns: 2000 },
    );
  });

  it("takes deep nesting without a stack of calls", () => {
    expect(jsonFaultAt("[".repeat(200_000))).toBe(200_000);
  });
});
