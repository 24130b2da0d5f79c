import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { inLong } from "../long.ts";
import { runCommandLine } from "./dataset-program.ts";
import { promptsServer } from "./prompts-server.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-numbers-"));
const { asked, baseUrl } = promptsServer();
afterAll(() => rmSync(root, { recursive: true, force: true }));

const ids = ["9007199254740993", "-9223372036854775807"];
const lines = ids.map((id) => `{"id":${id},"stars":5.0,"rate":0.10,"in":{"ids":[${id}]}}`);

/** The same rows in each format; what is not told apart there is written as it comes out. */
const inputs: Record<string, { bytes: string | Uint8Array; rows: string[] }> = {
  jsonl: { bytes: `${lines.join("\n")}\n`, rows: lines },
  csv: {
    bytes: `id,stars,rate\n${ids.map((id) => `${id},5.0,0.10\n`).join("")}`,
    rows: ids.map((id) => `{"id":"${id}","stars":"5.0","rate":"0.10"}`),
  },
  parquet: {
    bytes: new Uint8Array(
      parquetWriteBuffer({
        columnData: [
          { name: "id", data: ids.map(BigInt), type: "INT64" },
          { name: "rate", data: [0.1, 1e21], type: "DOUBLE" },
        ],
      }),
    ),
    rows: [`{"id":${ids[0]},"rate":0.1}`, `{"id":${ids[1]},"rate":1e+21}`],
  },
};

let folders = 0;

function folderOf(format: string, files: Record<string, string> = {}): string {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  writeFileSync(join(folder, `in.${format}`), inputs[format]!.bytes);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** Runs a job over a format and gives its results as text, line by line. */
async function results(format: string, job: JsonObject, files: Record<string, string> = {}) {
  const folder = folderOf(format, files);
  const whole = { input: `in.${format}`, output: "out.jsonl", workers: { max: 1 }, ...job };
  writeFileSync(join(folder, "job.json"), JSON.stringify(whole));
  const { code, stderr } = await runSluice(["run", "job.json", "--quiet"], folder);
  expect(code, stderr).toBe(0);
  return readFileSync(join(folder, "out.jsonl"), "utf8").trimEnd().split("\n");
}

const withAnswer = (row: string, answer: string) => `${row.slice(0, -1)},"answer":${answer}}`;

describe.each(Object.keys(inputs))("numbers of %s", (format) => {
  const { rows } = inputs[format]!;
  /** Rows of CSV have texts, which go everywhere in one way. */
  const add = format === "csv" ? inLong : it;

  it("stand in prompts as in the input", async () => {
    asked.length = 0;
    const model = { engine: "openai", name: "m", baseUrl: baseUrl() };
    const prompt = "{{ id }} {{ rate }} {{ row | tojson }}";
    const found = await results(format, { model, prompt, generation: { temperature: 0 } });
    const expected = rows.map((row) => {
      const [, id, rate] = /"id":"?([-\d]+)"?.*"rate":"?([^",}]+)/.exec(row)!;
      return `${id} ${rate} ${row.replace(/([:,])(?=["\d[{-])/g, "$1 ")}`;
    });
    expect(asked.toSorted()).toEqual(expected.toSorted());
    expect(found).toEqual(rows.map((row) => withAnswer(row, '"yes"')));
  });

  add?.("reach programs as they are written", async () => {
    const program = `
      const lines = require("node:readline").createInterface({ input: process.stdin });
      console.log(JSON.stringify({ ready: 1 }));
      lines.on("line", (line) => {
        const rows = [...line.matchAll(/"row":({.*?}),"parameters"/g)].map(([, row]) => row);
        const results = rows.map((row) => \`{"value": {"got": \${JSON.stringify(row)}, \` +
          \`"id": \${/"id":"?([-\\d]+)/.exec(row)[1]}}}\`);
        console.log(\`{"batch": \${JSON.parse(line).batch}, "results": [\${results}]}\`);
      });`;
    const model = { engine: "command", command: process.execPath, args: ["program.cjs"] };
    const found = await results(format, { model }, { "program.cjs": program });
    const answers = rows.map((row, at) => `{"got":${JSON.stringify(row)},"id":${ids[at]}}`);
    expect(found).toEqual(rows.map((row, at) => withAnswer(row, answers[at]!)));
  });

  it("are bigint in predictors, and digits again in their answers", async () => {
    const predict = `export const predict = (batch) => batch.map(({ row }) =>
      ({ type: typeof row.id, next: BigInt(row.id) + 1n, id: row.id }));`;
    const model = { engine: "predictor", module: "./predict.mjs" };
    const found = await results(format, { model }, { "predict.mjs": predict });
    const isText = format === "csv";
    const answers = ids.map((id) => {
      const own = isText ? `"${id}"` : id;
      return `{"type":"${isText ? "string" : "bigint"}","next":${BigInt(id) + 1n},"id":${own}}`;
    });
    expect(found).toEqual(rows.map((row, at) => withAnswer(row, answers[at]!)));
  });

  add?.(
    "keep their digits through datasets, in take and in modules of other processes",
    async () => {
      const program = `import { dataset } from "sluice";
      const rows = dataset.${format}("in.${format}");
      const kept = rows
        .filter((row) => row.id !== 0)
        .map((row) => ({ ...row, odd: BigInt(row.id) % 2n }));
      const [first] = await kept.take(1);
      console.log(typeof first.id, String(first.id), typeof first.odd);
      await kept.mapBatches(new URL("stage.mjs", import.meta.url)).writeJsonl("out.jsonl");
      await kept.show(1);`;
      const stage = `export default (batch) =>
      batch.map((row) => ({ ...row, half: BigInt(row.id) / 2n }));`;
      const folder = folderOf(format, { "program.mjs": program, "stage.mjs": stage });
      const start = `process.chdir(${JSON.stringify(folder)}); await import("./program.mjs");`;
      writeFileSync(join(folder, "start.mjs"), start);
      const { code, stdout, stderr } = await runCommandLine(join(folder, "start.mjs"));
      expect(code, stderr).toBe(0);
      const type = format === "csv" ? "string" : "bigint";
      const [taken, shown] = stdout.trim().split("\n");
      expect(taken).toBe(`${type} ${ids[0]} bigint`);
      const withOdd = rows.map((row, at) => `${row.slice(0, -1)},"odd":${BigInt(ids[at]!) % 2n}}`);
      const withHalf = withOdd.map(
        (row, at) => `${row.slice(0, -1)},"half":${BigInt(ids[at]!) / 2n}}`,
      );
      const found = readFileSync(join(folder, "out.jsonl"), "utf8").trimEnd().split("\n");
      expect(found).toEqual(withHalf);
      expect(JSON.parse(shown!)).toEqual(JSON.parse(withOdd[0]!));
      expect(shown).toContain(ids[0]);
    },
  );
});

describe("numbers of answers", () => {
  const answer = '{"id": 9007199254740993, "rate": 0.10, "list": [\n-9223372036854775807, 1.0]}';
  const bare = '{"id":9007199254740993,"rate":0.10,"list":[-9223372036854775807,1.0]}';
  const server = promptsServer(`\`\`\`json\n${answer}\n\`\`\``);
  const schema = {
    type: "object",
    properties: {
      id: { type: "integer" },
      rate: { type: "number" },
      list: { type: "array", items: { type: "number" } },
    },
    required: ["id", "rate", "list"],
  };
  const model = () => ({ engine: "openai", name: "m", baseUrl: server.baseUrl() });

  it("have the digits that the model wrote", async () => {
    const found = await results("jsonl", { model: model(), prompt: "{{ id }}", schema });
    expect(found).toEqual(lines.map((row) => withAnswer(row, bare)));
  });

  it("reach the code of later stages as bigint", async () => {
    const program = `import { dataset, generate } from "sluice";
      import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
      const number = z.number();
      const output = z.object({ id: number, rate: number, list: z.array(number) });
      const model = ${JSON.stringify(model())};
      await dataset.jsonl("in.jsonl").pipe(generate({ model, prompt: "{{ id }}", output }))
        .map(({ id, answer }) => ({ id, next: BigInt(answer.id) + 1n, answer }))
        .writeJsonl("out.jsonl");`;
    const folder = folderOf("jsonl", { "program.mjs": program });
    const start = `process.chdir(${JSON.stringify(folder)}); await import("./program.mjs");`;
    writeFileSync(join(folder, "start.mjs"), start);
    const { code, stderr } = await runCommandLine(join(folder, "start.mjs"));
    expect(code, stderr).toBe(0);
    const found = readFileSync(join(folder, "out.jsonl"), "utf8").trimEnd().split("\n");
    const made = bare.replace("0.10", "0.1").replace("1.0]", "1]");
    const answered = (id: string) => `{"id":${id},"next":9007199254740994,"answer":${made}}`;
    expect(found).toEqual(ids.map(answered));
  });

  it("stand in the reply of a batch file", async () => {
    const body = { model: "m", messages: [{ role: "user", content: "Which?" }] };
    const response_format = { type: "json_object" };
    const line = { custom_id: "a", method: "POST", url: "/v1/chat/completions" };
    const folder = folderOf("jsonl", {
      "batch.jsonl": `${JSON.stringify({ ...line, body: { ...body, response_format } })}\n`,
    });
    const words = ["-i", "batch.jsonl", "-o", "out.jsonl", "--model", `openai:m`];
    const { code, stderr } = await runSluice(
      ["run-batch", ...words, "--model.baseUrl", server.baseUrl(), "--quiet"],
      folder,
    );
    expect(code, stderr).toBe(0);
    const reply = JSON.parse(readFileSync(join(folder, "out.jsonl"), "utf8"));
    expect(reply.response.body.choices[0].message.content).toBe(bare);
  });
});
