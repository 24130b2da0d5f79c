import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type Column, ColumnTally } from "../../../../src/data/columns.ts";
import { parquetEncoder } from "../../../../src/data/formats/parquet/encoder.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import { type ExactRow, parseExactly } from "../../../../src/foundation/exact-json.ts";
import { readerOf } from "../reading.ts";
import { differences, pyarrowPython } from "./pyarrow.ts";
import { readAll } from "./reading.ts";

const golden = join(import.meta.dirname, "../../../golden/parquet");
const folder = mkdtempSync(join(tmpdir(), "sluice-parquet-"));
afterAll(() => rmSync(folder, { recursive: true }));
const format = parquetFormat();

/** A golden file's rows with an answer each, written under the columns of that file. */
async function written(name: string) {
  const content = readFileSync(join(golden, `${name}.parquet`));
  const known = await format.columns!(readerOf(content), name);
  const lines = (await readAll(content)).map(
    ({ raw }, at) => `${raw.slice(0, -1)},"answer":"no. ${at}"}`,
  );
  const tally = new ColumnTally(known);
  for (const line of lines) tally.add(parseExactly(line) as ExactRow);
  const encoder = parquetEncoder({ columns: tally.columns() });
  const file = Buffer.concat([...(await encoder.add(lines)), ...(await encoder.end())]);
  return { known, lines, file };
}

const answer: Column = { name: "answer", type: { kind: "string" }, nullable: false };
const names = ["pyarrow-types", "pyarrow-v1-zstd", "pandas", "duckdb"];

describe("Parquet to Parquet", () => {
  it.each(names)("keeps the schema and every value of the input: %s", async (name) => {
    const { known, lines, file } = await written(name);
    expect(await format.columns!(readerOf(file), "out")).toEqual([...known, answer]);
    expect((await readAll(file)).map(({ raw }) => raw)).toEqual(lines);
  });
});

const command = pyarrowPython();

describe("pyarrow", () => {
  it.for(names)("reads the same of what we wrote: %s", async (name, context) => {
    context.skip(command === undefined, "no Python here has pyarrow; PYTHON may name one");
    const after = join(folder, `${name}.parquet`);
    writeFileSync(after, (await written(name)).file);
    expect(differences(command!, join(golden, `${name}.parquet`), after)).toBe("");
  });
});
