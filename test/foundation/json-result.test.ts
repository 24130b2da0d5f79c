import { expect, it } from "vitest";
import { jsonResult } from "../../src/foundation/json-result.ts";

it("keeps what JSON has, and makes lists of typed arrays", () => {
  const plain = { text: "a", list: [1, null, true, { deep: [] }] };
  expect(jsonResult(plain)).toEqual(plain);
  expect(jsonResult({ vector: new Float32Array([1, 0.5]), left: undefined })).toEqual({
    vector: [1, 0.5],
  });
  expect(jsonResult(new Date(0))).toBe("1970-01-01T00:00:00.000Z");
  class Box {
    readonly held = 1;
  }
  const shared = { a: 1 };
  expect(jsonResult([new Box(), shared, shared])).toEqual([{ held: 1 }, shared, shared]);
  const odd = JSON.parse('{"__proto__": 1}');
  expect(JSON.stringify(jsonResult(odd))).toBe('{"__proto__":1}');
});

const circle: { list: unknown[] } = { list: [] };
circle.list.push({ back: circle });

it.each([
  [undefined, "the result is undefined"],
  [{ scores: [0.5, Number.NaN] }, "the result.scores[1] is NaN"],
  [{ deep: { vector: new Float64Array([1 / 0]) } }, "the result.deep.vector[0] is Infinity"],
  [() => 1, "the result is a function"],
  [{ scores: new Map([["a", 1]]) }, "the result.scores is a Map"],
  [new Set([1]), "the result is a Set"],
  [{ late: Promise.resolve(1) }, "the result.late is a Promise"],
  [[new Error("inner")], "the result[0] is an Error"],
  [new DataView(new ArrayBuffer(2)), "the result is a DataView"],
  [new ArrayBuffer(2), "the result is an ArrayBuffer"],
  [/a/, "the result is a RegExp"],
  [{ at: new Date("soon") }, "the result.at is an invalid Date"],
  [new Array(2), "the result[0] is undefined"],
  [circle, "the result.list[0].back is an object that holds itself"],
])("refuses what would come out changed: %s", (result, message) => {
  expect(() => jsonResult(result)).toThrow(message);
});
