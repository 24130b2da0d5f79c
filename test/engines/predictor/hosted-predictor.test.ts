import { describe, expect, it } from "vitest";
import type { HostedEngine } from "../../../src/engines/host/protocol.ts";
import { openHostedPredictor } from "../../../src/engines/predictor/hosted-predictor.ts";
import { rejectionOf } from "../engine-context.ts";
import { moduleFolder } from "./module-folder.ts";

const moduleFile = moduleFolder();
const { signal } = new AbortController();
const context = { modelName: "m", options: {}, maxBatchRows: 4, replica: 1, replicas: 2 };

function open(source: string): Promise<HostedEngine> {
  const module = moduleFile(source);
  return openHostedPredictor({ module, context: { ...context, devices: ["2", "3"] } });
}

describe("openHostedPredictor", () => {
  it("tells the module what it has, GPUs as its process numbers them", async () => {
    const engine = await open(
      `let told: object;
       export const load = (context: object) => void (told = context);
       export const predict = () => [told];`,
    );
    const replies = await engine.runBatch!([{}], signal);
    expect(replies).toMatchObject([
      { value: { device: "cuda:0", devices: ["2", "3"], replica: 1, replicas: 2 } },
    ]);
    const [{ value }] = replies as [{ value: { threads: number } }];
    expect(value.threads).toBeGreaterThanOrEqual(1);
    expect(engine.capacity).toBe(4);
  });

  it("computes one batch at a time, also after a failure, then closes", async () => {
    const engine = await open(
      `const events: string[] = [];
       export async function predict([item]: any[]) {
         events.push("begin " + item);
         await new Promise((resolve) => setTimeout(resolve, 5));
         events.push("end " + item);
         if (item === "a") throw new Error("no");
         return [events];
       }
       export const close = () => { if (events.length < 4) throw new Error("too early"); };`,
    );
    const [first, second] = [engine.runBatch!(["a"], signal), engine.runBatch!(["b"], signal)];
    const closed = engine.close();
    expect(await rejectionOf(first)).toMatchObject({ code: "PREDICTION_FAILED" });
    expect(await second).toEqual([{ value: ["begin a", "end a", "begin b", "end b"] }]);
    await closed;
  });

  it("names failures of single results", async () => {
    const engine = await open(
      `export const predict = () => [
         new Error("bad"), new RangeError("Array buffer allocation failed"), undefined, 1 ];`,
    );
    expect(await engine.runBatch!([1, 2, 3, 4], signal)).toMatchObject([
      { error: { code: "PREDICTION_FAILED", message: expect.stringContaining("bad") } },
      { error: { code: "OUT_OF_MEMORY" } },
      { error: { code: "PREDICTION_FAILED", message: expect.stringContaining("undefined") } },
      { value: 1 },
    ]);
  });

  it("waits for results that come later, each for itself", async () => {
    const engine = await open(
      `export const predict = (batch: number[]) => batch.map(async (item) => {
         await new Promise((resolve) => setTimeout(resolve, 5 - item));
         if (item === 2) throw new Error("not two");
         if (item === 3) throw "three";
         return item;
       });`,
    );
    expect(await engine.runBatch!([1, 2, 3, 4], signal)).toMatchObject([
      { value: 1 },
      { error: { code: "PREDICTION_FAILED", message: expect.stringContaining("not two") } },
      { error: { code: "PREDICTION_FAILED", message: expect.stringContaining("three") } },
      { value: 4 },
    ]);
  });

  it("names the place of a list that nothing was put into", async () => {
    const engine = await open(
      `export function predict(batch: unknown[]) {
         const results = new Array(batch.length);
         results[1] = "here";
         return results;
       }`,
    );
    expect(await engine.runBatch!([1, 2], signal)).toMatchObject([
      { error: { code: "PREDICTION_FAILED", message: expect.stringContaining("undefined") } },
      { value: "here" },
    ]);
  });

  it("hands on errors that the module names by their code", async () => {
    const errors = new URL("../../../src/foundation/errors.ts", import.meta.url).href;
    const engine = await open(
      `import { SluiceError } from "${errors}";
       export const predict = () => { throw new SluiceError("SERVER_ERROR", "later"); };`,
    );
    const error = await rejectionOf(engine.runBatch!([1], signal));
    expect(error).toMatchObject({ code: "SERVER_ERROR", retryable: true });
  });
});
