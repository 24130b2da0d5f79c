import { readFileSync, writeFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { openEngine } from "../../../src/engines/registry.ts";
import { entryCommand } from "../../../src/entry.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import { chatRequest, engineContext, rejectionOf } from "../engine-context.ts";
import { moduleFolder } from "./module-folder.ts";

const moduleFile = moduleFolder();
const { signal } = new AbortController();
const opened: Engine[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()));
});

async function open(source: string, options: Record<string, unknown> = {}): Promise<Engine> {
  const model = { engine: "predictor", module: moduleFile(source), ...options };
  const engine = await openEngine(
    modelOptions.parse(model),
    engineContext({
      // Waits between starts are drawn from 0: the tests need not wait.
      random: { next: () => 0 },
      environment: process.env,
      hostCommand: entryCommand("engines/host/main", process.execPath),
    }),
  );
  opened.push(engine);
  return engine;
}

const request = (index: number, row: InferenceRequest["row"] = {}): InferenceRequest => {
  const { messages: _, ...rest } = chatRequest(index);
  return { ...rest, row };
};

/** Answers to rows that are asked at once: values, or the codes of errors. */
async function answersTo(engine: Engine, indexes: readonly number[], row = {}) {
  const asked = indexes.map((index) => engine.infer(request(index, row), signal));
  const settled = await Promise.allSettled(asked);
  return settled.map((each) =>
    each.status === "fulfilled" ? each.value.answers[0]?.value : each.reason.code,
  );
}

const indexes = "export const predict = (batch: any[]) => batch.map(({ index }) => index);";

describe("openPredictor", () => {
  it("loads the module with its context, and hands it rows, prompts and options", async () => {
    const engine = await open(
      `let loaded: object;
       export function load(context: object) { loaded = context; }
       export const predict = (batch: object[]) => batch.map((item) => ({ item, loaded }));`,
      { name: "mine", options: { beams: 4 }, maxBatchRows: 8, threads: 3 },
    );
    const asked = { ...chatRequest(5), row: { id: 1 } };
    const { answers } = await engine.infer(asked, signal);
    expect(answers[0]?.value).toMatchObject({
      item: { row: { id: 1 }, index: 5, promptName: "answer", messages: asked.messages },
      loaded: {
        modelName: "mine",
        options: { beams: 4 },
        directory: expect.stringContaining("sluice-predictor-"),
        threads: 3,
        maxBatchRows: 8,
        devices: [],
      },
    });
    expect(answers[0]?.value).toMatchObject({ item: { parameters: { maxNewTokens: 20 } } });
    expect(engine.choices).toMatchObject({ replicas: 1, maxBatchRows: 8, threads: 3 });
  });

  it("computes batches, one at a time, in each replica", async () => {
    const engine = await open(
      `let running = 0;
       export async function predict(batch: any[]) {
         if (++running > 1) process.exit(9);
         await new Promise((resolve) => setTimeout(resolve, 30));
         running--;
         return batch.map(() => ({ pid: process.pid, rows: batch.length }));
       }`,
      { maxBatchRows: 2, replicas: 2 },
    );
    const found = await answersTo(engine, [0, 1, 2, 3, 4, 5, 6]);
    const batches = found as { pid: number; rows: number }[];
    expect(new Set(batches.map(({ pid }) => pid)).size).toBe(2);
    expect(batches.map(({ rows }) => rows)).toEqual([2, 2, 2, 2, 2, 2, 1]);
  });

  it("gives each replica its own GPU, and threads", async () => {
    const engine = await open(
      `let context: any;
       export function load(loaded: object) { context = loaded; }
       export const predict = (batch: any[]) => batch.map(() => ({
         replica: context.replica, device: context.device, devices: context.devices,
         shown: process.env.CUDA_VISIBLE_DEVICES, threads: process.env.OMP_NUM_THREADS }));`,
      { maxBatchRows: 1, replicas: 2, devices: [1, 0], threads: 2 },
    );
    const found = await answersTo(engine, [0, 1]);
    const common = { device: "cuda:0", threads: "2" };
    expect(found).toEqual([
      { replica: 0, devices: ["1"], shown: "1", ...common },
      { replica: 1, devices: ["0"], shown: "0", ...common },
    ]);
    expect(engine.choices?.gpu).toBe("cuda:1,0");
  });

  it("gives rows their own errors, and finds the one for which the batch throws", async () => {
    const engine = await open(
      `export function predict(batch: any[]) {
         if (batch.some(({ index }) => index === 6)) throw new TypeError("six");
         return batch.map(({ index }) => (index === 2 ? new Error("two") : index));
       }`,
    );
    const failed = "PREDICTION_FAILED";
    expect(await answersTo(engine, [0, 1, 2, 3, 4, 5, 6, 7])).toEqual([
      0,
      1,
      failed,
      3,
      4,
      5,
      failed,
      7,
    ]);
    const error = await rejectionOf(engine.infer(request(6), signal));
    expect(error?.message).toMatch(/TypeError: six \(module-\d+\.ts:2\)/);
  });

  it("goes on with smaller batches where memory does not suffice", async () => {
    const engine = await open(
      `export function predict(batch: any[]) {
         if (batch.length > 2) throw new RangeError("Array buffer allocation failed");
         if (batch[0].index === 3) throw Object.assign(new Error("full"), { code: "ENOMEM" });
         return batch.map(({ index }) => index);
       }`,
      { maxBatchRows: 8 },
    );
    expect(await answersTo(engine, [0, 1, 2])).toEqual([0, 1, 2]);
    // One row is computed, and one waits.
    expect(engine.capacity).toBe(2);
    expect(await answersTo(engine, [3])).toEqual(["OUT_OF_MEMORY"]);
  });

  it.each([
    ["export const predict = () => [];", "0 results for a batch of 1 row: []"],
    ["export const predict = () => ({});", "no list for a batch of 1 row: {}"],
    ["export const predict = () => [1, 2];", "2 results for a batch of 1 row: [ 1, 2 ]"],
  ])("refuses the results of %s", async (source, message) => {
    const error = await rejectionOf((await open(source)).infer(request(0), signal));
    expect(error).toMatchObject({ code: "RESULTS_MISCOUNTED" });
    expect(error?.message).toContain(message);
  });

  it("ends a batch that takes too long with its process, and goes on in the next one", async () => {
    const engine = await open(
      `export function predict(batch: any[]) {
         if (batch[0].index === 1) for (;;);
         return batch.map(() => process.pid);
       }`,
      { maxBatchRows: 1, timeoutMs: 2000 },
    );
    const [before] = await answersTo(engine, [0]);
    const error = await rejectionOf(engine.infer(request(1), signal));
    expect(error).toMatchObject({ code: "ENGINE_STALLED" });
    expect(error?.message).toContain("no answer to a batch within 2 s (model.timeoutMs)");
    const [after] = await answersTo(engine, [2]);
    expect(after).not.toBe(before);
  });

  it("loses only the batch with which its process ended", async () => {
    const engine = await open(
      `export function predict(batch: any[]) {
         if (batch.some(({ index }) => index === 1)) process.exit(3);
         return batch.map(({ index }) => index);
       }`,
      { maxBatchRows: 2 },
    );
    expect(await answersTo(engine, [0, 1, 2, 3])).toEqual(["ENGINE_DIED", "ENGINE_DIED", 2, 3]);
  });

  it("says of an error that nobody caught what it was, not the last line below it", async () => {
    const engine = await open(
      `export function predict() {
         setTimeout(() => { throw new TypeError("nobody caught it"); });
         return new Promise(() => {});
       }`,
    );
    const error = await rejectionOf(engine.infer(request(0), signal));
    expect(error?.message).toContain("exit code 1; it wrote: TypeError: nobody caught it");
  });

  it("tells a batch that nobody waits for it any more", async () => {
    const begun = moduleFile("");
    const engine = await open(
      `import { writeFileSync } from "node:fs";
       let aborted = 0;
       export async function predict(batch: any[], { signal }: { signal: AbortSignal }) {
         const aborting = new Promise((resolve) => signal.addEventListener("abort", resolve));
         writeFileSync(${JSON.stringify(begun)}, "begun");
         if (batch[0].index === 0) await aborting;
         return batch.map(() => (signal.aborted ? ++aborted : aborted));
       }`,
    );
    const leaving = new AbortController();
    const left = engine.infer(request(0), leaving.signal);
    const isLeft = expect(left).rejects.toThrow("left");
    await expect.poll(() => readFileSync(begun, "utf8")).toBe("begun");
    leaving.abort(new Error("left"));
    await isLeft;
    expect(await answersTo(engine, [1])).toEqual([1]);
  });

  it("closes the predictor", async () => {
    const left = moduleFile("");
    const engine = await open(
      `import { writeFileSync } from "node:fs";
       ${indexes}
       export const close = () => writeFileSync(${JSON.stringify(left)}, "closed");`,
    );
    await engine.close();
    expect(readFileSync(left, "utf8")).toBe("closed");
  });
});

describe("a module that cannot be used", () => {
  it.each([
    [
      "export const a = 1;\nexport const = 3;",
      /module-\d+\.ts: it does not load: SyntaxError: .*ts:2\)/,
    ],
    ["enum Kind { One }\nexport const predict = 1;", /it does not load: .*enum is not supported/],
    [
      `export const load = () => { throw new Error('no weights'); };\n${indexes}`,
      /load failed: no weights/,
    ],
    ["export const predcit = () => [];", /did you mean predict\?/],
  ])("is refused, with its file and the reason: %s", async (source, message) => {
    const error = await rejectionOf(open(source));
    expect(error).toMatchObject({ code: "PREDICTOR_UNUSABLE", scope: "run" });
    expect(error?.message).toMatch(message);
  });

  it("is refused where it ends its process while it is loaded", async () => {
    const error = await rejectionOf(open("console.error('no driver'); process.exit(4);"));
    expect(error?.code).toBe("ENGINE_START_FAILED");
    expect(error?.message).toMatch(/exit code 4, after writing\n {2}no driver/);
  });

  it("is refused where it is another one than the run was planned with", async () => {
    const module = moduleFile(indexes);
    const planned = { module, moduleSha256: sha256Hex(indexes) };
    expect(await answersTo(await open("", planned), [7])).toEqual([7]);
    writeFileSync(module, `${indexes}\n`);
    const error = await rejectionOf(open("", planned));
    expect(error).toMatchObject({ code: "PREDICTOR_UNUSABLE" });
    expect(error?.message).toContain("not the one that the run was planned with");
  });
});
