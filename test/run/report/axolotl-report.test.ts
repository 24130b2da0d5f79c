import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../../src/run/job/schema.ts";
import { memoryRuns } from "../memory-runs.ts";
import { rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const report = "axolotl" as const;
const reported = async (runs: ReturnType<typeof memoryRuns>) =>
  JSON.parse(await runs.text("_report.json"));
const prompts = async (runs: ReturnType<typeof memoryRuns>) =>
  (await reported(runs)).response.map(
    ({ prompt }: { prompt: [{ content: string }] }) => prompt[0].content,
  );
const telling = async (job: JobSpec) => jobSchema.parse({ ...job, prompt: "Tell {{ text }}" });
/** Fails the rows of these indexes. */
const failing = (...rows: number[]) =>
  scriptedEngine(4, ({ index }) => {
    if (rows.includes(index)) return new SluiceError("REQUEST_REFUSED", "no");
    return responseOf(` answer ${index}\n`);
  });

describe("report: axolotl", () => {
  it("has the summary and each prompt with its answers, in input order", async () => {
    const runs = memoryRuns(rowsOf(9), { report, shard: { rows: 4 } });
    const { summary } = await runs.run(failing(2, 3));
    const { response, ...rest } = await reported(runs);
    expect(rest).toEqual(summary);
    expect(response.map(({ row }: { row: number }) => row)).toEqual([0, 1, 4, 5, 6, 7, 8]);
    const [first] = response;
    expect(first).toMatchObject({
      prompt: [{ role: "user", content: "Say row 0" }],
      responses: [{ response: " answer 0\n", tokens: first.total_response_tokens }],
      row: 0,
    });
    expect(first.total_tokens).toBe(first.prompt_tokens + first.total_response_tokens);
    const sum = response.reduce(
      (all: number, it: typeof first) => all + it.total_response_tokens,
      0,
    );
    expect(sum).toBe(summary.total_tokens_generated);
    expect(await runs.damages()).toEqual([]);
  });

  it("is written anew by a retry, and from a merged file", async () => {
    const output = { path: "/runs/all.jsonl" };
    const runs = memoryRuns(rowsOf(6), { report, shard: { rows: 2 }, output });
    await runs.run(failing(1, 4));
    expect((await reported(runs)).response).toHaveLength(4);
    await runs.retry(failing(4));
    const { response, rows } = await reported(runs);
    expect(response.map(({ row }: { row: number }) => row)).toEqual([0, 1, 2, 3, 5]);
    expect(rows).toMatchObject({ answered: 5, failed: 1 });
  });

  it("has retried rows as their retries read and rendered them", async () => {
    const rows = [0, 1, 2, 3, 4, 5].map((id) =>
      JSON.stringify(id % 3 === 1 ? { id } : { id, text: `row ${id}` }),
    );
    const runs = memoryRuns(rows, { report, shard: { rows: 3 } });
    await runs.run(failing(2));
    expect(await prompts(runs)).toEqual(["Say row 0", "Say row 3", "Say row 5"]);
    const file = join(dirname(runs.input), "fixed.jsonl");
    const fixed = [1, 2, 4].map((id) => JSON.stringify({ id, text: `fixed ${id}` }));
    writeFileSync(file, fixed.map((row) => `${row}\n`).join(""));
    await runs.reread(failing(2), { file });
    const mended = ["Say row 0", "Say fixed 1", "Say row 3", "Say fixed 4", "Say row 5"];
    expect(await prompts(runs)).toEqual(mended);
    rows[2] = '{"id":2,"text":"longer than it was"}';
    runs.writeInput(rows);
    await runs.retry(failing(), "failed", undefined, telling, { reread: "input" });
    expect(await prompts(runs)).toEqual(mended.toSpliced(2, 0, "Tell longer than it was"));
    expect(await runs.damages()).toEqual([]);
  });

  it("has retried rows with their old prompt where the retry failed", async () => {
    const runs = memoryRuns(rowsOf(3), { report });
    await runs.run(scriptedEngine(4, () => responseOf("cut", "length")));
    await runs.retry(failing(1), "finish_reason=length", undefined, telling);
    expect(await prompts(runs)).toEqual(["Tell row 0", "Say row 1", "Tell row 2"]);
  });

  it("is made by the next call where it is missing", async () => {
    const runs = memoryRuns(rowsOf(3), { report });
    await runs.run();
    await runs.store("/runs/out").remove("_report.json");
    expect((await runs.run()).wasSealed).toBe(true);
    expect((await reported(runs)).response).toHaveLength(3);
  });

  it("shows only the rows of a sample", async () => {
    const runs = memoryRuns(rowsOf(20), { report, sample: 5 });
    await runs.run();
    const { response } = await reported(runs);
    const asked = (await runs.results()).map(({ id }) => id);
    expect(response.map(({ row }: { row: number }) => row)).toEqual(asked);
    expect(asked).toHaveLength(5);
  });

  it("names datasets, renders later turns from the answers, and counts each answer", async () => {
    const runs = memoryRuns(["{}"]);
    const path = join(dirname(runs.input), "chats.jsonl");
    const conversations = ["Q1", "A1", "Q2"].map((value, at) => ({
      from: at % 2 === 0 ? "human" : "gpt",
      value,
    }));
    writeFileSync(path, `${JSON.stringify({ conversations, prompt: "Once", dataset: "mine" })}\n`);
    const dataset: JobInput["dataset"] = [
      { name: "chats", path, type: "sharegpt", turns: "every" },
      { name: "texts", path, type: "metharme" },
    ];
    const generation = { numReturnSequences: 2, temperature: 1 };
    const output = { path: "/runs/out", stripWhitespace: true };
    const spec = runs.job({
      input: undefined,
      prompt: undefined,
      dataset,
      report,
      generation,
      output,
    });
    const engine = scriptedEngine(4, ({ promptName, element = 0 }) => {
      const first = responseOf(` ${promptName} ${element} `);
      const { answers, usage } = responseOf("second answer of it");
      return {
        ...first,
        answers: [...first.answers, ...answers],
        usage: {
          ...usage,
          completionTokens: usage.completionTokens + first.usage.completionTokens,
        },
      };
    });
    await runs.run(engine, spec);
    const rows = await runs.results(spec);
    expect(rows.map((row) => row.dataset)).toEqual(["chats", "texts"]);
    expect(rows[1]!.answer).toEqual(["texts 0", "second answer of it"]);
    const { response } = await reported(runs);
    expect(response).toMatchObject([
      { dataset: "chats", row: 0, prompt: [{ content: "Q1" }] },
      {
        dataset: "chats",
        row: 0,
        prompt: [{ content: "Q1" }, { role: "assistant", content: "chats 0" }, { content: "Q2" }],
        responses: [{ response: "chats 1" }, { response: "second answer of it" }],
      },
      { dataset: "texts", row: 1, prompt: "Once" },
    ]);
    for (const { responses, total_response_tokens: total } of response) {
      const tokens = responses.map((it: { tokens: number }) => it.tokens);
      expect(tokens).toHaveLength(2);
      expect(tokens[0] + tokens[1]).toBe(total);
    }
  });

  it("has dead letters beside it that name the dataset of a failed row", async () => {
    const runs = memoryRuns(["{}"]);
    const path = join(dirname(runs.input), "texts.jsonl");
    writeFileSync(path, `${JSON.stringify({ prompt: "Once" })}\n`);
    const dataset: JobInput["dataset"] = [{ name: "texts", path, type: "metharme" }];
    await runs.run(failing(0), runs.job({ input: undefined, prompt: undefined, dataset }));
    const letter = JSON.parse(await runs.text("_dead-letters/part-00000.jsonl"));
    expect(letter).toMatchObject({ dataset: "texts", code: "REQUEST_REFUSED" });
  });
});
