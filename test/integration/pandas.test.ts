import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ColumnTally } from "../../src/data/columns.ts";
import { endingOf, openEncoder, type ResultFormat } from "../../src/data/formats/result-format.ts";
import { type ExactRow, parseExactly } from "../../src/foundation/exact-json.ts";
import { written } from "../data/formats/writing.ts";
import { findTablesPython } from "./tables-python.ts";

const rows = [
  '{"id":1,"text":"plain","score":0.5,"tags":["a"]}',
  '{"id":9007199254740993,"text":"with \\"quotes\\", commas\\nand\\r\\nlines","score":-2,"tags":[]}',
  '{"id":3,"text":"Größe 😀\\ttab","score":1e-7,"tags":[" ","\\u0000"]}',
];

/** Reads files by their endings; of each the rows as JSON, numbers of `id` as text. */
const program = `
import json, sys, pandas, pyarrow.parquet
def rows_of(path):
    if ".csv" in path or ".tsv" in path:
        frame = pandas.read_csv(path, sep="\\t" if ".tsv" in path else ",", dtype={"id": str})
        frame["tags"] = frame["tags"].map(json.loads)
        return frame.to_dict("records")
    if ".parquet" in path:
        return pyarrow.parquet.read_table(path).to_pylist()
    return pandas.read_json(path, lines=".jsonl" in path, dtype=False).to_dict("records")
for path in sys.argv[1:]:
    print(json.dumps([{**row, "id": str(row["id"])} for row in rows_of(path)]))
`;

const folder = mkdtempSync(join(tmpdir(), "sluice-pandas-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const expected = rows.map((row) => ({
  ...JSON.parse(row),
  id: /"id":(\d+)/.exec(row)![1],
}));

const formats: ResultFormat[] = [
  { name: "csv" },
  { name: "tsv" },
  { name: "csv", compression: "gzip" },
  { name: "csv", compression: "zstd" },
  { name: "jsonl" },
  { name: "jsonl", compression: "gzip" },
  { name: "json" },
  { name: "parquet" },
];

describe("files of results", () => {
  it("are read by pandas and pyarrow, in every format and compression", async (context) => {
    const found = findTablesPython();
    if (found.missing !== undefined) return context.skip(found.missing);
    const tally = new ColumnTally();
    for (const row of rows) tally.add(parseExactly(row) as ExactRow);
    const paths: string[] = [];
    for (const format of formats) {
      const encoder = await openEncoder(format, { columns: tally.columns() });
      paths.push(join(folder, `rows${endingOf(format)}`));
      writeFileSync(paths.at(-1)!, await written(encoder, rows));
    }
    const read = execFileSync(found.python, ["-c", program, ...paths], { encoding: "utf8" });
    const lines = read.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toEqual(formats.map(() => expected));
  });
});
