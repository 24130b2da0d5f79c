import { describe, expect, it } from "vitest";
import { rowChars } from "../../src/engines/pipeline/row-chars.ts";
import { fromColumns, toColumns } from "../../src/foundation/column-batch.ts";

describe("columns of a batch", () => {
  it("have one length, with null where a row lacks one", () => {
    expect(toColumns([{ a: 1 }, { a: 2, b: "x" }])).toEqual({ a: [1, 2], b: [null, "x"] });
    expect(toColumns([])).toEqual({});
  });

  it("become rows again, from typed arrays too", () => {
    expect(fromColumns({ a: [1, 2], b: new Float32Array([0.5, 1]) })).toEqual([
      { a: 1, b: 0.5 },
      { a: 2, b: 1 },
    ]);
    expect(fromColumns({})).toEqual([]);
  });

  it("may have the names of members that every object has", () => {
    const rows = [JSON.parse('{"constructor":"Ferrari","__proto__":1}'), { toString: 2 }];
    const columns = toColumns(rows);
    expect(JSON.stringify(columns)).toBe(
      '{"constructor":["Ferrari",null],"__proto__":[1,null],"toString":[null,2]}',
    );
    expect(JSON.stringify(fromColumns(columns))).toBe(
      '[{"constructor":"Ferrari","__proto__":1,"toString":null},' +
        '{"constructor":null,"__proto__":null,"toString":2}]',
    );
  });

  it("are refused where their lengths differ", () => {
    expect(() => fromColumns({ a: [1, 2], b: [1] })).toThrow("b has 1 values, a has 2");
  });
});

describe("rowChars", () => {
  it("counts texts at every depth, and names", () => {
    expect(rowChars({ text: "four" })).toBe(8);
    expect(rowChars({ a: ["xx", { b: "yyy" }] })).toBe(1 + 2 + 1 + 3);
    expect(rowChars({ n: 1 })).toBeGreaterThan(1);
  });
});
