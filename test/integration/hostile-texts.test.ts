import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { jsonLinesIn } from "./json-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-hostile-texts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a job over rows of these texts; each row's answer, or the code of its dead letter. */
async function outcomesOf(name: string, texts: readonly string[], job: object): Promise<unknown[]> {
  const directory = join(folder, name);
  mkdirSync(directory);
  const rows = texts.map((text, id) => JSON.stringify({ id, text }));
  writeFileSync(join(directory, "rows.jsonl"), `${rows.join("\n")}\n`);
  const spec = { input: "rows.jsonl", output: "out", workers: { max: 1 }, ...job };
  writeFileSync(join(directory, "job.json"), JSON.stringify(spec));
  const { code, stderr } = await runSluice(["run", "-c", "job.json"], directory);
  expect(code, stderr).toBe(1);
  const verified = await runSluice(["verify", "out"], directory);
  expect(verified.code, verified.stdout + verified.stderr).toBe(0);
  const outcomes: unknown[] = [];
  for (const { id, answer } of jsonLinesIn(join(directory, "out"))) outcomes[id as number] = answer;
  for (const { index, code } of jsonLinesIn(join(directory, "out/_dead-letters"))) {
    expect(outcomes[index as number]).toBeUndefined();
    outcomes[index as number] = code;
  }
  return outcomes;
}

// Exponential in the length of a text that does not quite match.
const catastrophic = "(\\w+\\s?)+";
const nearly = `${"a".repeat(60)}!?b`;

describe("a row that never lets go", () => {
  it("of a predictor is given up, and its neighbours are answered", async () => {
    writeFileSync(
      join(folder, "stalling.ts"),
      `export function predict(batch) {
         const held = new Int32Array(new SharedArrayBuffer(4));
         if (batch.some(({ row }) => row.text === "trap")) Atomics.wait(held, 0, 0);
         return batch.map(({ row }) => row.text);
       }`,
    );
    const texts = Array.from({ length: 12 }, (_, id) => (id === 7 ? "trap" : `text ${id}`));
    const module = "../stalling.ts";
    const outcomes = await outcomesOf("predictor", texts, {
      model: { engine: "predictor", module, timeoutMs: 1000, maxBatchRows: 4 },
    });
    expect(outcomes).toEqual(texts.map((text, id) => (id === 7 ? "ROW_STALLS_WORKER" : text)));
  });

  it("of its worker is given up, and its neighbours are answered", async () => {
    const texts = Array.from({ length: 10 }, (_, id) => `text ${id}`);
    const outcomes = await outcomesOf("worker", texts, {
      model: { engine: "fake", capacity: 4, failures: [{ row: 3, kind: "stall-worker" }] },
      prompt: "{{ text }}",
      workers: { max: 1, maxSilenceMs: 2500 },
    });
    expect(outcomes.filter((outcome) => typeof outcome === "string")).toHaveLength(10);
    expect(outcomes.indexOf("ROW_STALLS_WORKER")).toBe(3);
    expect(outcomes.lastIndexOf("ROW_STALLS_WORKER")).toBe(3);
  });
});

describe("a text that would keep a worker busy for ever", () => {
  it("costs its own row where it is copied from by a slow pattern", async () => {
    const slots = { word: { copyFrom: "text", maxWords: 3, pattern: `${catastrophic}$` } };
    const texts = ["one two", nearly, "three"];
    const outcomes = await outcomesOf("slots", texts, {
      model: { engine: "fake" },
      prompts: { words: { prompt: "{{ text }}", answer: { line: "word={word}", slots } } },
    });
    expect(outcomes).toEqual([expect.anything(), "PATTERN_TOO_SLOW", expect.anything()]);
  });

  it("costs its own row where input.schema or the answers' schema has a slow pattern", async () => {
    const text = { type: "string", pattern: `^${catastrophic}$` };
    const server = await startFakeServer({
      behave: ({ body }) => ({
        kind: "answer",
        text: JSON.stringify({ text: body.includes("trap") ? nearly : "fine" }),
      }),
    });
    const model = { engine: "openai", name: "m", baseUrl: server.baseUrl };
    const schema = { type: "object", properties: { text }, required: ["text"] };
    const outcomes = await outcomesOf("schemas", ["one", nearly, "trap", "two"], {
      input: { path: "rows.jsonl", schema: { properties: { text } } },
      model,
      prompts: { words: { prompt: "{{ text }}", schema } },
    });
    await server.close();
    const slow = "PATTERN_TOO_SLOW";
    const fine = { words: { text: "fine" } };
    expect(outcomes).toEqual([fine, slow, slow, fine]);
  });

  it("is read at once where it is brackets, and its answer is stars", async () => {
    const server = await startFakeServer({
      behave: ({ body }) => ({
        kind: "answer",
        text: body.includes("((") ? `${"*".repeat(300_000)}x` : "word=two",
      }),
    });
    const slots = { word: { copyFrom: "text", maxWords: 3 } };
    const brackets = `${"(".repeat(100_000)}x${")".repeat(100_000)}`;
    const outcomes = await outcomesOf("brackets", ["one two", brackets, "two"], {
      model: { engine: "openai", name: "m", baseUrl: server.baseUrl },
      prompts: {
        words: { prompt: "{{ text | sentences | join }}", answer: { line: "word={word}", slots } },
      },
    });
    await server.close();
    expect(outcomes).toEqual([expect.anything(), "ANSWER_INVALID", expect.anything()]);
  });
});

describe("a template that computes without end", () => {
  const range = (name: string) => `{% for ${name} in range(9999) %}`;
  /** Just within its budget, for each of many rows. */
  const slowPrompt = `${range("a")}{% for b in range(50) %}${"{% endfor %}".repeat(2)}`;

  it("is refused by plan and by run, in time, and Ctrl-C ends plan at once", async () => {
    const directory = join(folder, "template");
    mkdirSync(directory);
    writeFileSync(join(directory, "rows.jsonl"), '{"text": "a"}\n'.repeat(2000));
    const prompt = `${range("a")}${range("b")}${range("c")}${"{% endfor %}".repeat(3)}`;
    const job = { input: "rows.jsonl", model: { engine: "fake" }, prompt, output: "out" };
    writeFileSync(join(directory, "job.json"), JSON.stringify(job));
    for (const command of ["plan", "run"]) {
      const { code, stderr } = await runSluice([command, "-c", "job.json"], directory);
      expect(code, stderr).toBe(64);
      expect(stderr).toContain("error PROMPT_UNFIT");
      expect(stderr).toContain("it takes too many steps for this row");
    }
    writeFileSync(join(directory, "job.json"), JSON.stringify({ ...job, prompt: slowPrompt }));
    const planning = startSluice(["plan", "-c", "job.json", "--show", "1000"], directory);
    const seconds = ["-o", "time=", "-p", String(planning.pid)];
    while (execFileSync("ps", seconds).toString().trim() === "00:00:00") await pause(100);
    planning.kill("SIGINT");
    expect(await planning.ended).toMatchObject({ signal: "SIGINT" });
  });

  it("is left at Ctrl-C by a run that looks at its first rows", async () => {
    const directory = join(folder, "first-rows");
    mkdirSync(directory);
    // Only the last row that is looked at gives a notice, and the run does not get so far.
    const rows = Array.from({ length: 20 }, (_, at) => (at < 19 ? { text: "a" } : { answer: "a" }));
    const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
    writeFileSync(join(directory, "rows.jsonl"), lines);
    const job = {
      input: "rows.jsonl",
      model: { engine: "fake" },
      prompt: slowPrompt,
      output: "out",
    };
    writeFileSync(join(directory, "job.json"), JSON.stringify(job));
    const run = startSluice(["run", "-c", "job.json", "--json"], directory);
    while (!run.stderr().includes('"type":"run-start"') && !run.hasEnded()) await pause(20);
    await pause(1000);
    run.kill("SIGINT");
    const { code, stderr } = await run.ended;
    expect(code, stderr).toBe(130);
    expect(stderr).not.toContain("have a field answer already");
  });
});
