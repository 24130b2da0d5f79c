import { expect, it } from "vitest";
import { jsonResult } from "../../../src/engines/predictor/json-result.ts";

it("keeps what JSON has, and makes lists of typed arrays", () => {
  const plain = { text: "a", list: [1, null, true, { deep: [] }] };
  expect(jsonResult(plain)).toEqual(plain);
  expect(jsonResult({ vector: new Float32Array([1, 0.5]), left: undefined })).toEqual({
    vector: [1, 0.5],
  });
  expect(jsonResult(new Date(0))).toBe("1970-01-01T00:00:00.000Z");
});

it.each([
  [undefined, "the result is undefined"],
  [{ scores: [0.5, Number.NaN] }, "the result.scores[1] is NaN"],
  [[1n], "the result[0] is a bigint"],
  [{ deep: { vector: new Float64Array([1 / 0]) } }, "the result.deep.vector[0] is Infinity"],
  [() => 1, "the result is a function"],
])("refuses what would come out changed: %s", (result, message) => {
  expect(() => jsonResult(result)).toThrow(message);
});
