import fc from "fast-check";
import Papa from "papaparse";
import { describe, expect, it } from "vitest";
import { ColumnTally } from "../../../src/data/columns.ts";
import { csvEncoder } from "../../../src/data/formats/csv-encoder.ts";
import { type ExactRow, parseExactly } from "../../../src/foundation/exact-json.ts";
import { written } from "./writing.ts";

const columnsOf = (lines: readonly string[]) => {
  const tally = new ColumnTally();
  for (const line of lines) tally.add(parseExactly(line) as ExactRow);
  return tally.columns();
};

const csvOf = async (lines: readonly string[], delimiter?: string) => {
  const encoder = csvEncoder({ columns: columnsOf(lines) }, delimiter);
  return (await written(encoder, lines)).toString();
};

describe("CSV", () => {
  it("has a header, nested values as JSON text and every digit of whole numbers", async () => {
    const lines = [
      '{"id":9007199254740993,"text":"a,b","tags":["x",1],"more":{"deep":9007199254740995}}',
      '{"id":2,"text":"say \\"hi\\"\\nthere","flag":true}',
    ];
    expect(await csvOf(lines)).toBe(
      [
        "id,text,tags,more,flag",
        '9007199254740993,"a,b","[""x"",1]","{""deep"":9007199254740995}",',
        '2,"say ""hi""\nthere",,,true',
        "",
      ].join("\n"),
    );
  });

  it("keeps what doubles cannot hold", async () => {
    expect(await csvOf(['{"n":1e400}', '{"n":-0}', '{"n":0.1e-5}'])).toBe("n\n1e400\n-0\n0.1e-5\n");
  });

  it("tells null from an empty text, and has a line for a row of one empty column", async () => {
    expect(await csvOf(['{"a":null,"b":""}', '{"b":"x"}'])).toBe('a,b\n,""\n,x\n');
    expect(await csvOf(['{"a":null}', '{"a":"x"}'])).toBe('a\n""\nx\n');
  });

  it("is its header where no row came, and nothing without columns", async () => {
    const column = { name: "a b", type: { kind: "string" }, nullable: true } as const;
    expect((await written(csvEncoder({ columns: [column] }), [])).toString()).toBe("a b\n");
    expect((await written(csvEncoder({ columns: [] }), [])).length).toBe(0);
  });

  it("separates by tabs as TSV", async () => {
    expect(await csvOf(['{"a":"x\\ty","b":1}'], "\t")).toBe('a\tb\n"x\ty"\t1\n');
  });

  it("refuses a row with a field that is no column: nothing is left out silently", async () => {
    const encoder = csvEncoder({ columns: columnsOf(['{"a":1}']) });
    await expect(encoder.add(['{"a":1,"b":2}'])).rejects.toThrow("column b");
  });

  it("gives back every text, whatever characters it has and however rows are handed over", () => {
    const text = fc.string({ unit: "binary" });
    const row = fc.record({ first: text, 'a "name", odd': text });
    const rows = fc.array(row, { minLength: 1, maxLength: 8 });
    return fc.assert(
      fc.asyncProperty(rows, fc.constantFrom(",", "\t"), async (all, delimiter) => {
        const lines = all.map((each) => JSON.stringify(each));
        const { data } = Papa.parse((await csvOf(lines, delimiter)).replace(/\n$/, ""), {
          header: true,
          delimiter,
          newline: "\n",
        });
        expect(data).toEqual(all);
      }),
    );
  });
});
