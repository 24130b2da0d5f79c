import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ColumnTally } from "../../../src/data/columns.ts";
import { csvFormat } from "../../../src/data/formats/csv/csv.ts";
import { jsonFormat } from "../../../src/data/formats/json.ts";
import { jsonlFormat } from "../../../src/data/formats/jsonl.ts";
import { openEncoder, type ResultFormat } from "../../../src/data/formats/result-format.ts";
import { type ExactRow, parseExactly } from "../../../src/foundation/exact-json.ts";
import { rowsOf } from "./reading.ts";
import { written } from "./writing.ts";

/** Texts of rows: unicode, nulls, nested values, huge whole numbers, empty ones. */
const wide = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String);
const valueText = fc.oneof(
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text)),
  wide,
  wide.map((digits) => `{"deep":[${digits}]}`),
  fc.constantFrom("null", '""', "{}", "[]", "1.0", "-0", '"\\u0000"', '"a\\r\\nb"', '"1,5"'),
);
const rowText = fc
  .dictionary(fc.string({ unit: "grapheme", minLength: 1, maxLength: 5 }), valueText)
  .map((fields) => {
    const members = Object.entries(fields).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
    return `{${members.join(",")}}`;
  });

async function fileOf(format: ResultFormat, lines: readonly string[]): Promise<Buffer> {
  const tally = new ColumnTally();
  for (const line of lines) tally.add(parseExactly(line) as ExactRow);
  return written(await openEncoder(format, { columns: tally.columns() }), lines);
}

const cut = {
  everyRows: fc.integer({ min: 1, max: 4 }),
  chunkBytes: fc.integer({ min: 1, max: 50 }),
};

describe("what is written is read back", () => {
  it.each([
    ["jsonl", jsonlFormat],
    ["json", jsonFormat],
  ] as const)("as %s, every digit and byte of a row", async (name, make) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(rowText, { maxLength: 8 }),
        fc.record(cut),
        async (lines, { everyRows, chunkBytes }) => {
          const rows = await rowsOf(make(chunkBytes), await fileOf({ name }, lines), { everyRows });
          expect(rows.map((row) => row.raw)).toEqual(lines);
        },
      ),
      { numRuns: 150 },
    );
  });

  it("as csv, each value as text; null and missing are empty", async () => {
    const names = ["id", 'odd "name",', "ü"] as const;
    const row = fc.tuple(wide, fc.option(fc.string({ unit: "grapheme" })), fc.string());
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { minLength: 1, maxLength: 8 }),
        fc.record(cut),
        async (all, how) => {
          const lines = all.map(([id, odd, last]) => {
            const members = [`"id":${id}`, `${JSON.stringify(names[1])}:${JSON.stringify(odd)}`];
            return `{${members.join(",")},"ü":${JSON.stringify(last)}}`;
          });
          const file = await fileOf({ name: "csv" }, lines);
          const rows = await rowsOf(csvFormat(how.chunkBytes), file, how);
          const expected = all.map(([id, odd, last]) => [id, odd ?? "", last]);
          expect(rows.map(({ value = {} }) => names.map((name) => value[name]))).toEqual(expected);
        },
      ),
      { numRuns: 150 },
    );
  });
});
