import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { batchIds, batchLines } from "../../run/openai-batch/batch-runs.ts";
import { scratchFolder } from "../../run/whole-run.ts";
import { call } from "../call.ts";

function folderWithBatch(): string {
  const folder = scratchFolder();
  writeFileSync(join(folder, "in.jsonl"), `${batchLines.join("\n")}\n`);
  return folder;
}

const idsIn = (folder: string, name: string) =>
  readFileSync(join(folder, name), "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line).custom_id);

describe("sluice run-batch", () => {
  it("writes one file with every line in order, and ends with the summary", async () => {
    const folder = folderWithBatch();
    const args = ["-i", "in.jsonl", "-o", "out.jsonl", "--model", "fake", "--show", "1"];
    const { stdout, stderr, exitCode } = await call(folder, "run-batch", ...args);
    expect(exitCode).toBe(1);
    expect(idsIn(folder, "out.jsonl")).toEqual(batchIds);
    const output = join(folder, "out.jsonl");
    expect(JSON.parse(stdout)).toMatchObject({ output, rows: { total: 11, failed: 6 } });
    expect(stderr).toMatch(/\ncustom_id +answer\na +\w+/);
    const verified = await call(folder, "verify", "out.jsonl");
    expect(verified.stdout).toContain("11 rows");
    expect(verified.stdout).toContain("every row accounted for");
  });

  it("takes vLLM's names, other names of the model, and a file for errors", async () => {
    const folder = folderWithBatch();
    const files = ["--input-file", "in.jsonl", "--output-file", "out.jsonl"];
    const errors = ["--error-file", "errors.jsonl", "--served-model-name", "other"];
    const { exitCode } = await call(
      folder,
      ...["run-batch", ...files, ...errors, "--model", "fake", "--maxFailedRows", "5"],
    );
    expect(exitCode).toBe(0);
    expect(idsIn(folder, "out.jsonl")).toEqual(["a", "b", "c", "d", "h", "j"]);
    expect(idsIn(folder, "errors.jsonl")).toEqual([null, "e", "f", "g", 9]);
    const other = ["--generation.topP", "0.5", "--fork"];
    await call(folder, "run-batch", ...files, ...errors, "--model", "fake", ...other);
    expect(idsIn(folder, "errors-2.jsonl")).toEqual([null, "e", "f", "g", 9]);
    expect(idsIn(folder, "out-2.jsonl")).toEqual(["a", "b", "c", "d", "h", "j"]);
  });

  it("takes several files, and a job file", async () => {
    const folder = folderWithBatch();
    const files = ["-i", "in.jsonl", "-i", "in.jsonl", "-o", "out.jsonl"];
    const names = ["--served-model-name", "x", "--served-model-name", "other"];
    const both = await call(folder, "run-batch", ...files, ...names, "--model", "fake");
    expect(JSON.parse(both.stdout)).toMatchObject({ rows: { total: 22, failed: 10 } });
    expect(idsIn(folder, "out.jsonl")).toEqual([...batchIds, ...batchIds]);
    const job = "input: {path: in.jsonl, format: openai-batch}\nmodel: {engine: fake}\n";
    writeFileSync(join(folder, "job.yaml"), job);
    const args = ["-c", "job.yaml", "-o", "other.jsonl", "--served-model-name", "*"];
    const { stdout } = await call(folder, "run-batch", ...args);
    expect(JSON.parse(stdout)).toMatchObject({ rows: { total: 11, failed: 5 } });
  });

  it.each([
    ["-i, --input-file is missing", ["-o", "out.jsonl"]],
    ["-o, --output-file is missing", ["-i", "in.jsonl"]],
    ["--output-file out must end in .jsonl", ["-i", "in.jsonl", "-o", "out"]],
    ["are requests already", ["-i", "in.jsonl", "-o", "out.jsonl", "--prompt", "x"]],
    ["--input-file and --input say the same", ["-i", "in.jsonl", "--input", "b.jsonl"]],
    ["--output-file and --output say the same", ["-o", "out.jsonl", "--output", "b.jsonl"]],
    ["--error-flie", ["-i", "in.jsonl", "-o", "out.jsonl", "--error-flie", "x"]],
  ])("says %s, and starts nothing", async (message, args) => {
    const folder = folderWithBatch();
    const { stderr, exitCode } = await call(folder, "run-batch", "--model", "fake", ...args);
    expect([exitCode, stderr]).toEqual([64, expect.stringContaining(message)]);
    expect(existsSync(join(folder, "out.jsonl.sluice"))).toBe(false);
  });
});
