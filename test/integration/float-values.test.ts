import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { runCommandLine } from "./dataset-program.ts";
import { promptsServer } from "./prompts-server.ts";

const special = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, null, -0, 0.5];
/** The first two row groups are large enough to be taken over, the last is not. */
const groups = [1200, 1200, 6];
const rows = groups.reduce((sum, count) => sum + count, 0);
const floatAt = (row: number) => special[row % special.length]!;
const rowOf = (id: number): Row => ({
  id,
  wide: floatAt(id),
  narrow: floatAt(id + 1),
  list: [floatAt(id), 1, floatAt(id + 2)],
  in: { x: floatAt(id + 3) },
  text: `${id} `.repeat(20),
});

interface Row {
  id: number;
  wide: number | null;
  narrow: number | null;
  list: (number | null)[];
  in: { x: number | null };
  text: string;
  answer?: string;
}

function parquetOf(count = groups): Uint8Array {
  const optional = { repetition_type: "OPTIONAL" } as const;
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({
    writer: bytes,
    schema: [
      { name: "schema", num_children: 6 },
      { name: "id", type: "INT32", repetition_type: "REQUIRED" },
      { name: "wide", type: "DOUBLE", ...optional },
      { name: "narrow", type: "FLOAT", ...optional },
      {
        name: "list",
        num_children: 1,
        converted_type: "LIST",
        logical_type: { type: "LIST" },
        ...optional,
      },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", type: "DOUBLE", ...optional },
      { name: "in", num_children: 1, ...optional },
      { name: "x", type: "DOUBLE", ...optional },
      {
        name: "text",
        type: "BYTE_ARRAY",
        converted_type: "UTF8",
        logical_type: { type: "STRING" },
        ...optional,
      },
    ],
  });
  let first = 0;
  for (const size of count) {
    const all = Array.from({ length: size }, (_, at) => rowOf(first + at));
    first += size;
    const column = (name: keyof Row) => ({ name, data: all.map((row) => row[name]) });
    const names = ["id", "wide", "narrow", "list", "in", "text"] as const;
    writer.write({ columnData: names.map(column), rowGroupSize: size });
  }
  writer.finish();
  return bytes.getBytes();
}

/** Rows of a Parquet file, or of all parts of a folder, in order. */
async function rowsIn(path: string): Promise<Row[]> {
  const parts = path.endsWith(".parquet")
    ? [path]
    : readdirSync(path)
        .filter((name) => name.startsWith("part-"))
        .sort()
        .map((name) => join(path, name));
  const found: Row[] = [];
  for (const part of parts) {
    const { buffer } = new Uint8Array(readFileSync(part));
    found.push(...((await parquetReadObjects({ file: buffer })) as Row[]));
  }
  return found;
}

const bare = (found: Row[]) => found.map(({ answer: _, ...row }) => row);
const whole = Array.from({ length: rows }, (_, id) => rowOf(id));

function folderWith(files: Record<string, string | Uint8Array>) {
  const folder = scratchFolder();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

async function sluice(folder: string, ...words: string[]) {
  return await runSluice([...words, "--quiet"], folder);
}

const job = [
  "--input",
  "in.parquet",
  "--model",
  "fake",
  "--prompt",
  "{{ wide }} of {{ id }}",
  "--set",
  "generation.seed=1",
];
const fake = ["--model", "fake", "--prompt", "{{ double }}"];
const parts = ["--output.format", "parquet"];
const failures = [3, 1205, 2402].map((row) => ({ row, kind: "refused" }));
const failing = ["--set", `model.failures=${JSON.stringify(failures)}`];
const mended = ["--set", "model.failures=[]"];

describe("NaN and infinities of Parquet", () => {
  it("stay whatever becomes of the rows beside them", async () => {
    const folder = folderWith({ "in.parquet": parquetOf() });
    const at = (name: string) => join(folder, name);
    expect((await sluice(folder, "run", ...job, ...parts, "--output", "all")).code).toBe(0);
    const all = await rowsIn(at("all"));
    expect(bare(all)).toEqual(whole);

    const some = await sluice(folder, "run", ...job, ...parts, ...failing, "--output", "some");
    expect(some.code, some.stderr).toBe(1);
    const left = whole.filter(({ id }) => !failures.some(({ row }) => row === id));
    expect(bare(await rowsIn(at("some")))).toEqual(left);
    const letters = readdirSync(at("some")).find((name) => name.startsWith("_dead"));
    expect(letters).toBeDefined();
    const failed = await runSluice(["results", "some", "--failed"], folder);
    expect(JSON.parse(failed.stdout.split("\n")[0]!).row).toMatchObject({
      id: 3,
      list: [null, 1, 0.5],
    });
    expect(failed.stdout).not.toContain("e+00");
    const retry = await sluice(folder, "retry", "some", ...mended);
    expect(retry.code, retry.stderr).toBe(0);
    expect(await rowsIn(at("some"))).toEqual(all);

    for (const form of ["jsonl", "csv"]) {
      const { stdout } = await runSluice(["results", "some", "--format", form], folder);
      expect(stdout).not.toMatch(/e\+00|NaN|Infinity/);
    }
    const table = await runSluice(["results", "some", "--output", "made.parquet"], folder);
    expect(table.code, table.stderr).toBe(0);
    expect(bare(await rowsIn(at("made.parquet"))).map(({ wide }) => wide)).toEqual(
      whole.map(({ wide }) => wide),
    );
  });

  it("stay in one file, with rows that failed and after a retry", async () => {
    const folder = folderWith({ "in.parquet": parquetOf() });
    const output = join(folder, "out.parquet");
    expect((await sluice(folder, "run", ...job, ...failing, "--output", "out.parquet")).code).toBe(
      1,
    );
    expect(await rowsIn(output)).toHaveLength(rows - failures.length);
    const retry = await sluice(folder, "retry", "out.parquet", ...mended);
    expect(retry.code, retry.stderr).toBe(0);
    expect(bare(await rowsIn(output))).toEqual(whole);
  });

  it("stay of Arrow files", async () => {
    const folder = folderWith({});
    const file = join(import.meta.dirname, "../golden/arrow/types.arrow");
    const columns = ["--set", "input.columns=[double]", "--output", "out.parquet"];
    const { code, stderr } = await sluice(folder, "run", ...["--input", file], ...fake, ...columns);
    expect(code, stderr).toBe(0);
    const found = (await rowsIn(join(folder, "out.parquet"))) as unknown as { double: number }[];
    expect(found.map(({ double }) => double)).toEqual([1e300, Number.NaN, 1e20]);
  });

  it("are null in lines and in JSON, and empty in CSV", async () => {
    const folder = folderWith({ "in.parquet": parquetOf() });
    const finite = JSON.parse(JSON.stringify(whole)) as Row[];
    for (const name of ["out.jsonl", "out.json", "lines"]) {
      const { code, stderr } = await sluice(folder, "run", ...job, "--output", name);
      expect(code, stderr).toBe(0);
    }
    const lines = readFileSync(join(folder, "out.jsonl"), "utf8").trimEnd().split("\n");
    const asLines = lines.map((line) => JSON.parse(line) as Row);
    const plain = (found: Row[]) => JSON.parse(JSON.stringify(bare(found))) as Row[];
    expect(plain(asLines)).toEqual(finite);
    expect(lines.join("\n")).not.toContain("e+00");
    const json = readFileSync(join(folder, "out.json"), "utf8");
    expect(plain(JSON.parse(json) as Row[])).toEqual(finite);
    expect(json).not.toContain("e+00");
    const published = readdirSync(join(folder, "lines")).filter((name) => name.startsWith("part-"));
    for (const name of published) {
      expect(readFileSync(join(folder, "lines", name), "utf8")).not.toContain("e+00");
    }
    await sluice(folder, "run", ...job, "--output", "out.csv");
    const csv = readFileSync(join(folder, "out.csv"), "utf8").split("\n");
    expect(csv[1]).toMatch(/^0,,,"\[null,1,null\]","\{""x"":null\}","0 0 /);
  });
});

describe("NaN and infinities on their way", () => {
  const { asked, baseUrl } = promptsServer();
  const small = { "in.parquet": parquetOf([6]) };

  async function run(model: JsonObject, more: JsonObject, files: Record<string, string> = {}) {
    const folder = folderWith({ ...small, ...files });
    const whole = {
      input: "in.parquet",
      output: "out.parquet",
      model,
      workers: { max: 1 },
      ...more,
    };
    writeFileSync(join(folder, "job.json"), JSON.stringify(whole));
    const { code, stderr } = await sluice(folder, "run", "job.json");
    expect(code, stderr).toBe(0);
    return await rowsIn(join(folder, "out.parquet"));
  }

  it("stand in prompts by name, and as null in JSON", async () => {
    const prompt = "{{ wide }} {{ in.x }} {{ [wide] | tojson }} {{ list }} {{ wide == 0.5 }}";
    const found = await run({ engine: "openai", name: "m", baseUrl: baseUrl() }, { prompt });
    expect(bare(found)).toEqual(whole.slice(0, 6));
    expect(asked.sort()).toEqual(
      [
        "NaN  [null] [null, 1, null] false",
        "Infinity -0 [null] [null, 1, null] false",
        "-Infinity 0.5 [null] [null, 1, -0] false",
        " NaN [null] [null, 1, 0.5] false",
        "-0 Infinity [-0] [-0, 1, null] false",
        "0.5 -Infinity [0.5] [0.5, 1, null] true",
      ].sort(),
    );
  });

  it("are doubles in predictors, and null for programs", async () => {
    const predictor = `export default { predict: (batch) => batch.map(({ row }) => ({
      text: [row.wide, row.narrow, ...row.list, row.in.x].map(String).join(" ") })) };`;
    const found = await run({ engine: "predictor", module: "./p.mjs" }, {}, { "p.mjs": predictor });
    expect(found.map(({ answer }) => answer)).toEqual(
      whole
        .slice(0, 6)
        .map(({ wide, narrow, list, in: { x } }) =>
          [wide, narrow, ...list, x].map(String).join(" "),
        ),
    );
    const program = `import { createInterface } from "node:readline";
console.log('{"ready":1}');
for await (const line of createInterface({ input: process.stdin })) {
  const { batch, items } = JSON.parse(line);
  const results = items.map(({ row }) => ({ text: JSON.stringify(row.wide) + line.includes("e+00") }));
  console.log(JSON.stringify({ batch, results }));
}`;
    const model = { engine: "command", command: process.execPath, args: ["p.mjs"] };
    const answered = await run(model, {}, { "p.mjs": program });
    expect(answered.map(({ answer }) => answer)).toEqual(
      ["null", "null", "null", "null", "0", "0.5"].map((text) => `${text}false`),
    );
  });

  it("pass through stages, loops and results", async () => {
    const folder = folderWith(small);
    const program = `import { dataset, results } from "sluice";
process.chdir(${JSON.stringify(folder)});
const show = (rows) => console.log(rows.map(({ wide, list }) => [wide, ...list].map(String).join(" ")).join(","));
show(await dataset.parquet("in.parquet").take(6));
const twice = dataset.parquet("in.parquet").map((row) => ({ ...row, again: row.wide })).mapBatches((rows) => rows);
show(await twice.take(6));
const { summary } = await twice.writeParquet("out.parquet");
console.log(summary.rows.answered);
const kept = [];
for await (const row of results("out.parquet")) kept.push(row);
show(kept);
const computed = await dataset.parquet("in.parquet").map((row) => ({ y: row.id / 0 - row.id / 0, id: row.id, n: [0 / row.id] }))
  .filter((row) => true).take(6).catch((error) => error.message);
console.log(computed);`;
    writeFileSync(join(folder, "program.mjs"), program);
    const { code, stdout, stderr } = await runCommandLine(join(folder, "program.mjs"));
    expect(code, stderr).toBe(0);
    const shown = whole
      .slice(0, 6)
      .map(({ wide, list }) => [wide, ...list].map(String).join(" "))
      .join(",");
    const told = stdout.trimEnd().split("\n");
    expect(told).toEqual([shown, shown, "6", shown, expect.stringContaining("NaN")]);
    const found = (await rowsIn(join(folder, "out.parquet"))) as (Row & { again: number })[];
    expect(found.map(({ again, ...row }) => ({ ...row, id: Number(row.id) }))).toEqual(
      whole.slice(0, 6),
    );
    expect(found.map(({ again }) => again)).toEqual(special);
  });
});
