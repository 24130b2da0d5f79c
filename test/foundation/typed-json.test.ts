import { describe, expect, it } from "vitest";
import { exactText } from "../../src/foundation/exact-json.ts";
import { typedResult } from "../../src/foundation/json-result.ts";
import {
  fromWire,
  plainJson,
  requestJson,
  type TypedJson,
  toWire,
} from "../../src/foundation/typed-json.ts";

const row: TypedJson = {
  at: new Date(1_700_000_000_123),
  id: 9_007_199_254_740_993n,
  vector: new Float32Array([0.5, 2]),
  bytes: new Uint8Array([1, 2, 255]).subarray(1),
  held: Buffer.from("é"),
  longs: new BigInt64Array([-1n, 2n ** 60n]),
  deep: [{ at: new Date(0) }, null, "text", 1.5],
};

describe("rows with values that JSON lacks", () => {
  it("come out of another process as they went in", () => {
    const wire = JSON.stringify(toWire(row));
    expect(fromWire(JSON.parse(wire))).toEqual(row);
  });

  it("keep objects that look like ours", () => {
    const odd = { $type: "Date", value: { $type: 3, at: new Date(5) }, "__proto__ ": 1 };
    expect(fromWire(JSON.parse(JSON.stringify(toWire(odd))))).toEqual(odd);
  });

  it("are not copied where there is none", () => {
    const plain = { a: [1, { b: null }], c: "x" };
    expect(toWire(plain)).toBe(plain);
    expect(fromWire(plain)).toBe(plain);
    expect(plainJson(plain)).toBe(plain);
    const odd = JSON.parse('{"__proto__": 1, "id": 1}');
    expect(JSON.stringify(toWire({ ...odd, id: 1n }))).toContain('"__proto__":1');
  });

  it("are text, base64, lists and digits in results", () => {
    expect(JSON.parse(exactText(plainJson(row)))).toEqual({
      at: "2023-11-14T22:13:20.123Z",
      id: Number(9_007_199_254_740_993n),
      vector: [0.5, 2],
      bytes: "Av8=",
      held: "w6k=",
      longs: [-1, 2 ** 60],
      deep: [{ at: "1970-01-01T00:00:00.000Z" }, null, "text", 1.5],
    });
    expect(exactText(plainJson(row))).toContain('"id":9007199254740993');
  });

  it("are copies of what code gave, and refused where no file could hold them", () => {
    const vector = new Float32Array([1, 2]);
    const copy = typedResult({ vector }, (problem) => new Error(problem)) as { vector: unknown };
    vector[0] = 5;
    expect(copy.vector).toEqual(new Float32Array([1, 2]));
    const refused = (value: unknown) => () => typedResult(value, (problem) => new Error(problem));
    expect(refused({ at: new Date(Number.NaN) })).toThrow(".at is an invalid Date");
    expect(refused([new Float64Array([1, Number.NaN])])).toThrow("[0][1] is NaN");
    expect(refused({ map: new Map() })).toThrow(".map is a Map");
  });

  it("keep the digits of their numbers in requests, and their types elsewhere", () => {
    const numbers = { large: 1e20, id: 2n ** 60n, few: 5n, longs: new BigInt64Array([2n ** 60n]) };
    expect(JSON.stringify(requestJson({ ...numbers, nan: Number.NaN, x: 0.5 }))).toBe(
      '{"large":1e+20,"id":1152921504606846976,"few":5,"longs":[1152921504606846976],' +
        '"nan":9e+00999,"x":0.5}',
    );
    expect(fromWire(JSON.parse(JSON.stringify(toWire(numbers))))).toEqual(numbers);
    const plain = { a: [1, { b: -0.5 }], c: "x" };
    expect(requestJson(plain)).toBe(plain);
  });
});
