import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { jsonLinesIn } from "./json-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-predictor-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let runs = 0;

/** A job over rows 0, 1, … with a predictor of this source, and what its runs leave. */
class PredictorRun {
  readonly directory = join(folder, `run-${runs++}`);
  /** The environment of all that it starts. */
  environment: Record<string, string> = {};

  constructor(rows: number, source: string, model: JsonObject = {}, job: JsonObject = {}) {
    mkdirSync(this.directory);
    const lines = Array.from({ length: rows }, (_, row) => JSON.stringify({ row }));
    this.write("rows.jsonl", `${lines.join("\n")}\n`);
    this.write("predict.ts", source);
    const spec = {
      input: "rows.jsonl",
      model: { engine: "predictor", module: "./predict.ts", ...model },
      output: "out",
      ...job,
    };
    // JSON is YAML as well.
    this.write("job.yaml", JSON.stringify(spec));
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.directory, name), text);
  }

  sluice(...args: string[]) {
    return runSluice(args, this.directory, this.environment);
  }

  /** Every row's answer, or the code of its dead letter, in order; each row stands once. */
  async outcomes(): Promise<unknown[]> {
    const verified = await this.sluice("verify", "out");
    expect(verified.code, verified.stdout + verified.stderr).toBe(0);
    const outcomes: unknown[] = [];
    const take = (row: number, outcome: unknown) => {
      expect(outcomes[row]).toBeUndefined();
      outcomes[row] = outcome;
    };
    for (const { row, answer } of jsonLinesIn(join(this.directory, "out")))
      take(row as number, answer);
    for (const { index, code } of this.deadLetters()) take(index as number, code);
    return outcomes;
  }

  deadLetters(): JsonObject[] {
    return jsonLinesIn(join(this.directory, "out/_dead-letters"));
  }
}

/** The answer of each row, but for those that fail. */
function expected(rows: number, failed: Record<number, string> = {}): unknown[] {
  return Array.from({ length: rows }, (_, row) => failed[row] ?? { twice: 2 * row });
}

const answers = "batch.map(({ row }) => ({ twice: 2 * row.row }))";
type Fault = [
  name: string,
  source: string,
  failed: Record<number, string>,
  rows: number,
  more?: { model?: JsonObject; says?: string },
];

const faults: Fault[] = [
  [
    "throws on one row in a thousand",
    `export function predict(batch) {
       if (batch.some(({ index }) => index % 1000 === 500)) throw new Error("no good");
       return ${answers};
     }`,
    { 500: "PREDICTION_FAILED", 1500: "PREDICTION_FAILED", 2500: "PREDICTION_FAILED" },
    3000,
  ],
  [
    "exits",
    `export function predict(batch) {
       if (batch.some(({ index }) => index === 333)) { console.error("bad"); process.exit(3); }
       return ${answers};
     }`,
    { 333: "ROW_KILLS_ENGINE" },
    1000,
    { says: "exit code 3; its last line: bad" },
  ],
  [
    "hangs",
    `export function predict(batch) {
       const held = new Int32Array(new SharedArrayBuffer(4));
       if (batch.some(({ index }) => index === 70)) Atomics.wait(held, 0, 0);
       return ${answers};
     }`,
    { 70: "ROW_STALLS_WORKER" },
    300,
    { model: { timeoutMs: 1000, maxBatchRows: 8 } },
  ],
  [
    "does not have the memory for more than five rows, nor for a certain one",
    `export function predict(batch) {
       if (batch.length > 5 || batch.some(({ index }) => index === 21)) {
         throw new Error("CUDA out of memory. Tried to allocate 2.00 GiB");
       }
       return ${answers};
     }`,
    { 21: "OUT_OF_MEMORY" },
    1000,
  ],
];

describe("a run with a predictor that", () => {
  it.each(faults)("%s answers every other row, once", async (_, source, failed, rows, more) => {
    const run = new PredictorRun(rows, source, { maxBatchRows: 64, replicas: 2, ...more?.model });
    const { code, stderr } = await run.sluice("run", "-c", "job.yaml");
    expect(code, stderr).toBe(1);
    expect(await run.outcomes()).toEqual(expected(rows, failed));
    expect(run.deadLetters()[0]!.message).toContain(more?.says ?? "");
  });

  // By halving, single rows came to an answer that was none: of each batch the first row's.
  it("folds each batch into one result answers none of it", async () => {
    const source = `export const predict = (batch) => [batch.length];`;
    const run = new PredictorRun(64, source, { maxBatchRows: 8 });
    const { code, stderr } = await run.sluice("run", "-c", "job.yaml");
    expect(code, stderr).toBe(1);
    const outcomes = await run.outcomes();
    // Only a batch of one row has one result for each.
    for (const outcome of outcomes) expect(["RESULTS_MISCOUNTED", 1]).toContain(outcome);
    expect(outcomes.filter((outcome) => outcome !== 1).length).toBeGreaterThanOrEqual(48);
    expect(run.deadLetters()[0]?.message).toMatch(/1 result for a batch of \d rows: \[ \d \]/);
  });

  it("leaks until its process ends answers all rows", async () => {
    const source = `
      const kept = [];
      export function predict(batch) {
        kept.push(Array.from({ length: 1_000_000 }, (_, at) => at + 0.5));
        return ${answers};
      }`;
    const run = new PredictorRun(160, source, { maxBatchRows: 8 });
    run.environment = { NODE_OPTIONS: "--max-old-space-size=96" };
    const { code, stderr } = await run.sluice("run", "-c", "job.yaml");
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/engine host ended: signal SIGABRT/);
    expect(await run.outcomes()).toEqual(expected(160));
  });
});

describe("a run with a predictor", () => {
  it("is not gone on with by another module, and retries with a mended one", async () => {
    const failing = `export const predict = (batch) => batch.map(({ row }) =>
      row.row === 3 ? new Error("three") : { twice: 2 * row.row });`;
    const run = new PredictorRun(10, failing);
    expect((await run.sluice("run", "-c", "job.yaml")).code).toBe(1);
    run.write("predict.ts", `export const predict = (batch) => ${answers};`);
    const again = await run.sluice("run", "-c", "job.yaml");
    expect(again.code).toBe(64);
    expect(again.stderr).toMatch(/RUN_DIFFERS.*model\.moduleSha256/);
    const retried = await run.sluice("retry", "out");
    expect(retried.code, retried.stderr).toBe(0);
    expect(await run.outcomes()).toEqual(expected(10));
  });

  it("keeps any JSON value, late ones and null among them", async () => {
    const source = `const values = [null, false, "", [], 0];
      export const predict = (batch) => batch.map(async ({ index }) => values[index]);`;
    const run = new PredictorRun(5, source);
    expect(await run.sluice("run", "-c", "job.yaml")).toMatchObject({ code: 0 });
    expect(await run.outcomes()).toEqual([null, false, "", [], 0]);
  });

  it("is not started without the GPUs that its job wants", async () => {
    const env = { CUDA_VISIBLE_DEVICES: "" };
    const run = new PredictorRun(
      1,
      `export const predict = () => [1];`,
      { devices: "all" },
      { env },
    );
    const { code, stderr } = await callHere(["run", "-c", "job.yaml"], run.directory);
    expect(stderr).toContain("model.devices: all, and this machine shows no GPU");
    expect(code).toBe(64);
  });

  it("takes prompts as well, whose answers are checked", async () => {
    const source = `export const predict = (batch) => batch.map(({ messages, row }) =>
      messages[0].content === "Twice " + row.row ? { twice: 2 * row.row } : new Error("no"));`;
    const prompt = { prompt: "Twice {{ row }}" };
    const schema = {
      type: "object",
      properties: { twice: { type: "integer", maximum: 10 } },
      required: ["twice"],
    };
    const run = new PredictorRun(8, source, {}, { prompt, schema, retries: { maxAttempts: 1 } });
    expect((await run.sluice("run", "-c", "job.yaml")).code).toBe(1);
    const invalid = { 6: "ANSWER_INVALID", 7: "ANSWER_INVALID" };
    expect(await run.outcomes()).toEqual(expected(8, invalid));
  });

  it.each([
    [{ replicas: 3, devices: [0, 1] }, /model\.replicas: there are more replicas than devices/],
    [{ module: "./predcit.ts" }, /PREDICTOR_UNUSABLE.*predcit\.ts: ENOENT/],
    [{ maxBatchRow: 3 }, /model\.maxBatchRow: is not a key here; did you mean maxBatchRows\?/],
  ])("refuses %j before anything is planned", async (model, message) => {
    const run = new PredictorRun(
      3,
      `export const predict = (batch) => ${answers};`,
      model as JsonObject,
    );
    const { code, stderr } = await callHere(["run", "-c", "job.yaml"], run.directory);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(message);
    expect(readdirSync(run.directory)).not.toContain("out");
  });
});
