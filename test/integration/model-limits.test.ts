import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { jsonLinesIn } from "./json-lines.ts";

/** Answers each row with the number of rows in its batch. */
const predictor = `
  let options;
  export const load = (context) => void ({ options } = context);
  export function predict(batch) {
    if (batch.some(({ row }) => row.id === options.large)) throw new Error("CUDA out of memory");
    return batch.map(() => batch.length);
  }
`;

/** A folder with some rows and a predictor, and the packed program in it. */
function someFolder(module = predictor, count = 120) {
  const folder = scratchFolder();
  const rows = Array.from({ length: count }, (_, id) => JSON.stringify({ id, text: "a" }));
  writeFileSync(join(folder, "rows.jsonl"), `${rows.join("\n")}\n`);
  writeFileSync(join(folder, "predict.mjs"), module);
  const call = (command: string, more: readonly string[] = [], environment = {}) => {
    const model = ["--model.engine", "predictor", "--model.module", "predict.mjs"];
    const parameters = [command, "--input", "rows.jsonl", ...model, "--output", "out", ...more];
    return runSluice(parameters, folder, environment);
  };
  const sizes = () => jsonLinesIn(join(folder, "out")).map(({ answer }) => answer as number);
  return { folder, call, sizes };
}

describe("limits of a model, through the packed program", () => {
  it("are set by a flag and by a variable, in words and numbers", async () => {
    const byFlag = someFolder();
    await byFlag.call("run", ["--model.maxBatchRows", "4"]);
    expect(Math.max(...byFlag.sizes())).toBe(4);
    const byVariable = someFolder();
    await byVariable.call("run", [], { SLUICE_MODEL__MAX_BATCH_ROWS: "5" });
    expect(Math.max(...byVariable.sizes())).toBe(5);
    const inWords = await someFolder().call("run", ["--model.maxBatchRows", "auto"]);
    expect(inWords.code, inWords.stderr).toBe(0);
    const wrong = await someFolder().call("run", ["--model.maxBatchRows", "many"]);
    expect(wrong.code).toBe(64);
    expect(wrong.stderr).toContain("--model.maxBatchRows");
  });

  it("come back after a row that does not fit into memory by itself", async () => {
    const { call, sizes } = someFolder(predictor, 2000);
    const { code } = await call("run", ["--model.options", "{large: 10}"]);
    expect(code).toBe(1);
    expect(sizes().length).toBe(1999);
    // Rows that were asked with it are asked again; almost all others go by the batch, as before.
    expect(sizes().filter((size) => size >= 16).length).toBeGreaterThan(1000);
  });

  it("beyond the cores are told, by plan and by run", async () => {
    const { call } = someFolder();
    const many = ["--model.replicas", "2", "--model.threads", String(availableParallelism())];
    const told = /2 replicas of \d+ threads? each share \d+ cores? of a worker/;
    expect((await call("plan", many)).stdout).toMatch(told);
    const { stdout, stderr, code } = await call("run", many);
    expect(stdout + stderr).toMatch(told);
    expect(code).toBe(0);
  });

  it("of a GPU that is not there are told", async () => {
    const { folder } = someFolder();
    writeFileSync(join(folder, "stage.mjs"), "export default (rows) => rows;");
    const stages = "[{kind: mapBatches, module: stage.mjs, numGpus: 1}]";
    const pipeline = ["--model.engine", "pipeline", "--model.stages", stages];
    const parameters = ["run", "--input", "rows.jsonl", ...pipeline, "--output", "out"];
    // No driver is on this path.
    const { stderr, code } = await runSluice(parameters, folder, { PATH: "/usr/bin/none" });
    expect(stderr).toContain("the model asks for a GPU, and no GPU is seen on this machine");
    expect(code).toBe(0);
  });

  it("end a load that hangs, and name its key", async () => {
    const hanging = `
      export async function load() {
        await new Promise((resolve) => setTimeout(resolve, 600_000));
      }
      export const predict = (batch) => batch;`;
    const { call } = someFolder(hanging);
    const { stderr, code } = await call("run", ["--model.loadTimeoutMs", "1500"]);
    expect(code).not.toBe(0);
    expect(stderr).toContain("not loaded after 1.5 s (loadTimeoutMs)");
    expect(stderr).toContain("raise loadTimeoutMs");
  });
});
