import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Column, ColumnTally } from "../../../../src/data/columns.ts";
import { parquetEncoder } from "../../../../src/data/formats/parquet/encoder.ts";
import { readFooter } from "../../../../src/data/formats/parquet/footer.ts";
import type { PageCompression } from "../../../../src/data/formats/parquet/page-codecs.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import { type ExactRow, exactText, parseExactly } from "../../../../src/foundation/exact-json.ts";
import { limits } from "../../../../src/foundation/limits.ts";
import { readerOf } from "../reading.ts";
import { readAll } from "./reading.ts";

const format = parquetFormat();

async function encoded(
  lines: readonly string[],
  columns: readonly Column[],
  compression?: PageCompression,
): Promise<Buffer> {
  const encoder = parquetEncoder({ columns }, compression);
  const pieces = [...(await encoder.add(lines)), ...(await encoder.end())];
  return Buffer.concat(pieces);
}

async function decoded(file: Uint8Array): Promise<ExactRow[]> {
  return (await readAll(file)).map(({ raw }) => parseExactly(raw) as ExactRow);
}

function columnsOf(lines: readonly string[], known: readonly Column[] = []): Column[] {
  const tally = new ColumnTally(known);
  for (const line of lines) tally.add(parseExactly(line) as ExactRow);
  return tally.columns();
}

describe("parquetEncoder", () => {
  it("writes what comes out again", async () => {
    const lines = [
      '{"id":9007199254740993,"text":"Grüße","list":[{"a":1,"b":null}],"deep":{"x":{"y":[[1],[]]}}}',
      '{"id":-1,"text":"","list":[],"deep":{"x":{"y":[]}},"late":true}',
      '{"id":0,"text":"x","list":[{"a":2,"b":"c"}],"deep":null,"mixed":[1,"a",{}]}',
    ];
    const columns = columnsOf(lines);
    const rows = await decoded(await encoded(lines, columns));
    const empty = { late: null, mixed: null };
    expect(rows).toEqual([
      { ...(parseExactly(lines[0]!) as ExactRow), ...empty },
      { ...(parseExactly(lines[1]!) as ExactRow), mixed: null },
      { ...(parseExactly(lines[2]!) as ExactRow), late: null },
    ]);
  });

  it("states bounds of plain values, and none of whole documents", async () => {
    const lines = ['{"id":3,"any":[1,"a",{}],"deep":{"any":[1,"a"]}}', '{"id":5,"any":"b"}'];
    const file = await encoded(lines, columnsOf(lines));
    const { groups } = await readFooter(readerOf(file), "out.parquet");
    const bounds = groups[0]!.columns.map(({ path_in_schema: path, statistics }) => [
      path[0],
      statistics?.min_value,
      statistics?.max_value,
    ]);
    expect(bounds).toEqual([
      ["id", 3n, 5n],
      ["any", undefined, undefined],
      ["deep", undefined, undefined],
    ]);
  });

  it("writes null for a member that an object lacks, though every object inherits it", async () => {
    const lines = ['{"car":{"constructor":"Ferrari"}}', '{"car":{"constructor":null}}'];
    const given = [lines[0]!, '{"car":{}}'];
    const file = await encoded(given, columnsOf(given));
    expect((await decoded(file)).map(exactText)).toEqual(lines);
  });

  it("writes decimals by their digits, not by how floats are cut", async () => {
    const type = { kind: "decimal", precision: 4, scale: 2 } as const;
    const lines = ['{"a":0.29}', '{"a":-1.13}', '{"a":4.35}'];
    const file = await encoded(lines, [{ name: "a", type, nullable: false }]);
    expect((await decoded(file)).map(exactText)).toEqual(lines);
  });

  it.each(["snappy", "gzip", "zstd", "none"] as const)("compresses by %s", async (compression) => {
    const lines = Array.from({ length: 3000 }, (_, id) => `{"id":${id},"text":"row ${id % 7}"}`);
    const file = await encoded(lines, columnsOf(lines), compression);
    const rows = await decoded(file);
    expect(rows.map(exactText)).toEqual(lines);
  });

  it("gives equal bytes for equal rows, however they come, by bounded row groups", async () => {
    const text = "x".repeat(limits.maxRowGroupChars / 4);
    const lines = Array.from({ length: 6 }, (_, id) => `{"id":${id},"text":"${id}${text}"}`);
    const columns = columnsOf(lines);
    const encoder = parquetEncoder({ columns });
    const pieces: Uint8Array[] = [];
    for (const line of lines) pieces.push(...(await encoder.add([line])));
    expect(pieces).toHaveLength(1);
    pieces.push(...(await encoder.end()));
    const file = Buffer.concat(pieces);
    expect(file.equals(await encoded(lines, columns))).toBe(true);
    expect((await decoded(file)).map(exactText)).toEqual(lines);
  });

  it("writes a file without rows", async () => {
    const columns = columnsOf(['{"a":1}']);
    const file = await encoded([], columns);
    expect(await decoded(file)).toEqual([]);
    expect(await format.columns!(readerOf(file), "out.parquet")).toEqual(columns);
  });

  it("refuses a row that does not fit", async () => {
    const columns = columnsOf(['{"a":1}']);
    await expect(encoded(['{"a":1,"b":2}'], columns)).rejects.toThrow("column b");
    await expect(encoded(['{"a":null}'], columns)).rejects.toThrow("column a");
    await expect(encoded(['{"a":0.5}'], columns)).rejects.toThrow("column a");
  });

  it("gives back every row that its columns were found of", async () => {
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.oneof(
          fc.constant(null),
          fc.boolean(),
          fc.integer(),
          fc.double({ noNaN: true, noDefaultInfinity: true }),
          fc.bigInt({ min: 2n ** 53n, max: 2n ** 65n }),
          fc.string({ unit: "binary", maxLength: 5 }),
        ),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom("a", "b", "c.d"), tie("value")),
      ),
    })).value as fc.Arbitrary<ExactRow[string]>;
    const row = fc.dictionary(fc.constantFrom("a", "b", "ü"), value);
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 6 }), async (rows) => {
        const lines = rows.map(exactText);
        const columns = columnsOf(lines);
        fc.pre(columns.length > 0);
        const again = await decoded(await encoded(lines, columns));
        expect(again.map(withoutNulls)).toEqual(
          lines.map((line) => withoutNulls(parseExactly(line))),
        );
      }),
      { numRuns: 30 },
    );
  });
});

/** A member that is null and one that is missing are the same to a table. */
function withoutNulls(value: ExactRow[string]): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]));
}
