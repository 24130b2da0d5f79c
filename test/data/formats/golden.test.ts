import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { formatFor } from "../../../src/data/formats/registry.ts";
import type { InputRow } from "../../../src/data/row.ts";
import { readRows, scanSlices } from "../../../src/data/slices.ts";
import { localInputs } from "../../local-inputs.ts";

const folder = join(import.meta.dirname, "../../golden/formats");
const text = readFileSync(join(folder, "rows.json"), "utf8");
/** The rows, with their numbers as texts that keep every digit. */
const expected = JSON.parse(text.replace(/"id": (\d+)/g, '"id": "$1"'));
const schema = { properties: { id: { type: "integer" } } };

async function rowsOf(name: string, rowsPerTask: number): Promise<InputRow[]> {
  const path = join(folder, name);
  const format = formatFor(path).name;
  const files = [{ path, bytes: 0, modifiedMs: 0, format, source: 0 }];
  const options = {
    rowsPerTask,
    maxLineBytes: 1e6,
    sources: [{ schema }],
    openFile: localInputs.open,
  };
  const rows: InputRow[] = [];
  for await (const task of scanSlices(files, options)) {
    for await (const read of readRows(task.slices, task.firstRow, localInputs.open, options)) {
      rows.push(...read);
    }
  }
  return rows;
}

describe("files that other tools wrote", () => {
  it.each([
    "pandas.csv",
    "pandas-index.csv",
    "pandas.tsv",
    "pandas.csv.gz",
    "pandas.jsonl",
    "pandas.json",
    "python.csv",
    "duckdb.csv",
    "duckdb-array.json",
    "appended.jsonl.gz",
    "appended.jsonl.zst",
  ])("%s", async (name) => {
    for (const rowsPerTask of [1, 100]) {
      const rows = await rowsOf(name, rowsPerTask);
      const found = rows.map((row) => JSON.parse(row.raw.replace(/"id": ?(\d+)/, '"id":"$1"')));
      for (const row of found) delete row[""];
      expect(found).toEqual(expected);
      expect(rows.map((row) => row.error)).toEqual(rows.map(() => undefined));
    }
  });

  it("duckdb.json, which is JSON Lines by another name: says so", async () => {
    await expect(rowsOf("duckdb.json", 10)).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
      hint: expect.stringContaining("set input.format to jsonl"),
    });
  });
});
