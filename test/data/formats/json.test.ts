import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonFormat } from "../../../src/data/formats/json.ts";
import { anyName, anyValue } from "../json-values.ts";
import { brief, readerOf, rowsOf, scanAll } from "./reading.ts";

const json = jsonFormat();

describe("json rows", () => {
  it("takes a file that is one object as one row", async () => {
    const rows = await rowsOf(json, '\uFEFF\n{\n  "a": [1.0, "]}"],\r\n\t"b": "x\\ny"\n}\n');
    expect(rows.map(brief)).toEqual([[0, 2, { a: [1, "]}"], b: "x\ny" }]]);
    expect(rows[0]?.raw).toBe('{"a": [1.0, "]}"],"b": "x\\ny"}');
  });

  it("takes the elements of an array as rows, with their lines and numbers", async () => {
    const content = '[\n  {"id": 9007199254740993},\n\n  {\n    "b": 1e2\n  }  , {"c":"[,\\""}\n]';
    const rows = await rowsOf(json, content);
    expect(rows.map((row) => [row.index, row.line, row.raw])).toEqual([
      [0, 2, '{"id": 9007199254740993}'],
      [1, 4, '{"b": 1e2}'],
      [2, 6, '{"c":"[,\\""}'],
    ]);
  });

  it("finds no rows in an empty array", async () => {
    expect(await scanAll(json, " [ \n ] ")).toEqual([]);
  });

  it("makes faults with clear borders rows of their own", async () => {
    const bad = Buffer.from([0xff]);
    const content = Buffer.concat([
      Buffer.from('[{"a":1},\n{"a" 1},\n{"x":\n"}"\n "y"},null,[{"a":1}],7 ,"s",{"a":"'),
      bad,
      Buffer.from('"},{"a":"\0"},{"a":2}]'),
    ]);
    const rows = await rowsOf(json, content);
    expect(rows.map(brief)).toEqual([
      [0, 1, { a: 1 }],
      [1, 2, "JSON_INVALID"],
      [2, 3, "JSON_INVALID"],
      [3, 5, "ROW_NOT_OBJECT"],
      [4, 5, "ROW_NOT_OBJECT"],
      [5, 5, "ROW_NOT_OBJECT"],
      [6, 5, "ROW_NOT_OBJECT"],
      [7, 5, "UTF8_INVALID"],
      [8, 5, "NUL_BYTE"],
      [9, 5, { a: 2 }],
    ]);
    expect(rows[2]?.error?.place.line).toBe(5);
    expect(rows[7]?.rawBase64).toBe(Buffer.from('{"a":"\xff"}', "latin1").toString("base64"));
  });

  it("keeps only the start of an element that is too long", async () => {
    const long = JSON.stringify({ a: "x".repeat(3000) });
    for (const chunkBytes of [undefined, 10, 700]) {
      const cut = { maxLineBytes: 2000, everyRows: 1 };
      const rows = await rowsOf(jsonFormat(chunkBytes), `[{"a":1},${long},{"a":2}]`, cut);
      expect(rows.map((row) => row.error?.code)).toEqual([undefined, "LINE_TOO_LONG", undefined]);
      expect(rows[1]?.raw).toBe(long.slice(0, 1024));
    }
  });

  it.each([
    ['\n{"a":\n1', "JSON_INVALID", 2, 3, '{"a":\n1'],
    ['{"a":1}\n}\n', "JSON_INVALID", 1, 2, '{"a":1}\n}'],
    ['{"a":1} "b": {"c":2}', "JSON_INVALID", 1, 1, '{"a":1} "b": {"c":2}'],
    ['{"a":1},', "JSON_INVALID", 1, 1, '{"a":1},'],
    ['{"a":"1}', "JSON_INVALID", 1, 1, '{"a":"1}'],
    ["\ntext", "JSON_INVALID", 2, 2, "text"],
    ["null\n", "ROW_NOT_OBJECT", 1, 1, "null"],
  ])("makes one row at fault of the file %j: %s", async (content, code, line, place, raw) => {
    for (const chunkBytes of [undefined, 1, 3]) {
      const rows = await rowsOf(jsonFormat(chunkBytes), content, { firstCutRows: 1, everyRows: 1 });
      expect(rows).toMatchObject([{ index: 0, line, raw, error: { code } }]);
      expect(rows[0]?.error?.place).toMatchObject({ file: "in", line: place });
    }
  });

  it.each([
    ['[{"a":1},\n{"a":2', "never closes", 2],
    ['[{"a":1},\n', "never closes", 1],
    ['{"a":1}\n{"a":2}', "another object follows", 2],
    ['{"a":1},\n {"a":2},', "another object follows", 2],
    ['[{"a":1}]\n{"a":2}', "text follows", 2],
    ["[1]]", "text follows", 1],
    ['[{"a":1},\n]', "element is missing", 2],
    ["[,1]", "element is missing", 1],
    ["[1,,2]", "element is missing", 1],
    ["[1}", "closing brace", 1],
    ["", "no JSON", 1],
    ["\n  \n", "no JSON", 3],
  ])("refuses %j, whose borders are lost: %s on line %i", async (content, message, line) => {
    await expect(scanAll(json, content)).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining(message),
      place: { file: "in", line },
    });
  });

  it("notices that a slice has changed", async () => {
    const [, slice] = await scanAll(json, '[{"a":1},{"a":2}]', { everyRows: 1 });
    const readAs = async (now: string) => {
      for await (const _ of json.read(readerOf(now), slice!, 1, { maxLineBytes: 1000 }));
    };
    await readAs('[{"a":3},{"a":2}]');
    await expect(readAs('[{"a":1},{"a":3}]')).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    await expect(readAs('[{"a":1},,"a":2}]')).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    await expect(readAs('[{"a":1},{"a":2')).rejects.toMatchObject({ code: "INPUT_CHANGED" });
  });

  it("reads back what was written, for every cut, chunk size and indentation", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.dictionary(anyName, anyValue), { maxLength: 10 }),
        fc.record({
          indent: fc.constantFrom(undefined, 1, "\t"),
          around: fc.constantFrom(["", ""], ["\uFEFF", "\n"], ["\r\n ", " \r\n"]),
          chunkBytes: fc.integer({ min: 1, max: 60 }),
          firstCutRows: fc.integer({ min: 1, max: 4 }),
          everyRows: fc.integer({ min: 1, max: 4 }),
        }),
        async (values, { indent, around, chunkBytes, ...cut }) => {
          const content = around[0] + JSON.stringify(values, null, indent) + around[1];
          const rows = await rowsOf(jsonFormat(chunkBytes), content, cut);
          expect(rows.map((row) => JSON.stringify(row.value))).toEqual(
            values.map((value) => JSON.stringify(value)),
          );
          expect(rows.map((row) => JSON.stringify(JSON.parse(row.raw)))).toEqual(
            values.map((value) => JSON.stringify(value)),
          );
          expect(rows.every((row) => !/[\r\n]/.test(row.raw))).toBe(true);
          expect(rows.map((row) => row.index)).toEqual(rows.map((_, index) => index));
          const lines = content.split("\n");
          expect(rows.every((row) => lines[row.line - 1]?.includes("{"))).toBe(true);
        },
      ),
      { numRuns: 100 },
    );
  });
});
