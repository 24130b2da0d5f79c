import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../../src/data/storage/local.ts";
import { loadJob } from "../../../src/run/job/load.ts";
import { errorFileOf } from "../../../src/run/openai-batch/error-file.ts";
import { verifyRun } from "../../../src/run/seal/verify.ts";
import { carriedOut, filesOf, retriedWith, textOf, type WholeRun } from "../whole-run.ts";
import { batchFaults, batchIds, batchLines, preparedBatch, resultsIn } from "./batch-runs.ts";

const anyModel = ({ job }: WholeRun) => ({
  input: job.input.map((source) => ({ ...source, servedModelName: ["*"] })),
});

async function damagesOf({ location }: WholeRun) {
  const { directory, outside } = location;
  return (await verifyRun(openStorage(directory), openStorage(outside))).damages;
}

function expectLines(run: WholeRun, faults: Readonly<Record<number, string>>) {
  const results = resultsIn(run, "results.jsonl");
  expect(results.map((line) => line.custom_id)).toEqual(batchIds);
  const codes = results.map(({ error }) => error?.code);
  expect(codes).toEqual(batchLines.map((_, at) => faults[at]));
  for (const { response, error } of results) {
    expect(response.status_code === 200).toBe(error === null);
  }
}

describe("one output with answered and failed lines", () => {
  it("has every line in order; the failed ones are dead letters as well", async () => {
    const run = preparedBatch();
    const { summary } = await carriedOut(run);
    expect(summary.rows).toMatchObject({ total: 11, answered: 5, failed: 6 });
    expectLines(run, batchFaults);
    const [first, second] = resultsIn(run, "results.jsonl");
    expect(first!.response.body).toMatchObject({ object: "chat.completion", model: "fake" });
    expect(second!.response.body).toMatchObject({
      object: "text_completion",
      choices: [{ finish_reason: "length" }],
    });
    expect(filesOf(run).filter((path) => path.startsWith("_dead-letters/"))).toHaveLength(3);
    expect(await damagesOf(run)).toEqual([]);
  });

  it("names the model as the job wants it", async () => {
    const { job, ...run } = preparedBatch();
    await carriedOut({ ...run, job: { ...job, output: { ...job.output, modelName: "chat" } } });
    expect(resultsIn({ ...run, job }, "results.jsonl")[0]!.response.body.model).toBe("chat");
  });

  it("has a row's answer in its place after a retry", async () => {
    const run = preparedBatch();
    await carriedOut(run);
    const before = resultsIn(run, "results.jsonl");
    await retriedWith(run, anyModel(run));
    const { 2: _, ...left } = batchFaults;
    expectLines(run, left);
    expect(resultsIn(run, "results.jsonl")[0]).toEqual(before[0]);
    expect(await damagesOf(run)).toEqual([]);
  });

  it("has the same in parts, where a directory is asked for", async () => {
    const run = preparedBatch("out");
    await carriedOut(run);
    const parts = filesOf(run).filter((path) => path.startsWith("part-"));
    const lines = parts.flatMap((path) => textOf(run, path).split("\n").slice(0, -1));
    expect(lines.map((line) => JSON.parse(line).custom_id)).toEqual(batchIds);
    expect(await damagesOf(run)).toEqual([]);
    await retriedWith(run, anyModel(run));
    expect(await damagesOf(run)).toEqual([]);
  });

  it("notices a failed line that is gone", async () => {
    const run = preparedBatch();
    await carriedOut(run);
    const path = join(run.folder, "results.jsonl");
    const kept = readFileSync(path, "utf8")
      .split("\n")
      .filter((line) => !line.includes("invalid_json_line"));
    writeFileSync(path, kept.join("\n"));
    const [damage] = await damagesOf(run);
    expect(damage?.problem).toContain("10 rows, 11 were sealed");
  });

  it("refuses a retry that would give lines of another form", async () => {
    const run = preparedBatch();
    await carriedOut(run);
    const output = { ...run.job.output, format: "jsonl" as const };
    await expect(retriedWith(run, { output })).rejects.toThrow(
      /a retry cannot change output.format/,
    );
  });
});

describe("an error file", () => {
  it("gets the failed lines in order, and the output the others", async () => {
    const run = preparedBatch("results.jsonl", "errors.jsonl");
    await carriedOut(run);
    const failed = (at: number) => batchFaults[at] !== undefined;
    const idsOf = (name: string) => resultsIn(run, name).map((line) => line.custom_id);
    expect(idsOf("results.jsonl")).toEqual(batchIds.filter((_, at) => !failed(at)));
    expect(idsOf("errors.jsonl")).toEqual(batchIds.filter((_, at) => failed(at)));
    expect(await damagesOf(run)).toEqual([]);

    await retriedWith(run, anyModel(run));
    expect(idsOf("results.jsonl")).toEqual(["a", "b", "c", "d", "h", "j"]);
    expect(idsOf("errors.jsonl")).toEqual([null, "e", "f", "g", 9]);
    expect(await damagesOf(run)).toEqual([]);

    rmSync(join(run.folder, "errors.jsonl"));
    expect(await damagesOf(run)).toEqual([
      { file: "errors.jsonl", problem: "the file is missing" },
    ]);
  });

  it("is there and empty when nothing failed", async () => {
    const run = preparedBatch("results.jsonl", "errors.jsonl", { limit: 2 });
    await carriedOut(run);
    expect(resultsIn(run, "errors.jsonl")).toEqual([]);
    expect(await damagesOf(run)).toEqual([]);
  });

  it("is left alone where somebody else wrote it, and goes with its run", async () => {
    const run = preparedBatch("results.jsonl", "errors.jsonl");
    const path = join(run.folder, "errors.jsonl");
    writeFileSync(path, "mine\n");
    await expect(carriedOut(run)).rejects.toThrow(/the file exists .*errors.jsonl/);
    rmSync(path);
    await carriedOut(run);
    const { errorFile: _, ...output } = run.job.output;
    await carriedOut({ ...run, job: { ...run.job, output } }, undefined, undefined, true);
    expect(existsSync(path)).toBe(false);
  });

  it("is named from the same place as the output, and a trial has one of its own", async () => {
    const workingDirectory = "/work";
    const load = (flags: Record<string, string>) =>
      loadJob({
        environment: { SLUICE_OUTPUT__ERROR_FILE: "errors.jsonl", SLUICE_OUTPUT__PATH: "o.jsonl" },
        flags: { input: "in", "input.format": "openai-batch", model: "fake", ...flags },
        workingDirectory,
      });
    const whole = await load({ "output.format": "openai-batch" });
    expect(whole.job.output.errorFile).toBe("/work/errors.jsonl");
    const trial = await load({ "output.format": "openai-batch", limit: "5" });
    expect(trial.job.output).toMatchObject({
      path: "/work/o-limit5.jsonl",
      errorFile: "/work/errors-limit5.jsonl",
    });
  });

  it("must lie beside the output, and not in it", () => {
    const { job, location } = preparedBatch();
    const at = (errorFile: string) =>
      errorFileOf({ ...job, output: { ...job.output, errorFile } }, location);
    const { outside, directory } = location;
    expect(at(`${outside}/errors.jsonl`)).toBe("errors.jsonl");
    expect(at(`${outside}/deep/errors.jsonl`)).toBe("deep/errors.jsonl");
    expect(errorFileOf(job, location)).toBeNull();
    for (const path of ["/errors.jsonl", `${directory}/e.jsonl`, `${outside}/results.jsonl`]) {
      expect(() => at(path)).toThrow(/where the output lies/);
    }
  });
});
