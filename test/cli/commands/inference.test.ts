import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { scratchFolder } from "../../run/whole-run.ts";
import { call } from "../call.ts";

const rows = [
  { instruction: "Greet me.", input: "", response: "Ahoy." },
  { instruction: "Greet him.", input: "He is a cook.", response: "Hello." },
  { instruction: "Sum up.", input: "", response: "It rained." },
];

/** A folder with GPTeacher's form of file: one array of JSON. */
function folderWithRows(): string {
  const folder = scratchFolder();
  writeFileSync(join(folder, "rows.json"), JSON.stringify(rows, null, 2));
  return folder;
}

const resultsOf = (folder: string, output: string) =>
  readdirSync(join(folder, output))
    .filter((name) => name.startsWith("part-"))
    .sort()
    .flatMap((name) =>
      readFileSync(join(folder, output, name), "utf8")
        .split("\n")
        .slice(0, -1),
    )
    .map((line) => JSON.parse(line));

const generation =
  "num_return_sequences=3,repetition_penalty=1.18,max_new_tokens=500,temperature=0.5,top_p=0.5," +
  "top_k=20,do_sample=true,use_cache=false,prepend_bos=true";
const readmeForm = [
  "inference",
  "batch",
  "--base_model=fake",
  "--dataset=name=Sample,path=rows.json,type=gpteacher",
  "--sequence_len=4096",
  "--truncate_features=response",
  `--generation_config=${generation}`,
  "--output_dir=out",
];

describe("sluice inference batch", () => {
  it("takes Axolotl's flags as they stand in its README", async () => {
    const folder = folderWithRows();
    const { stdout, stderr, exitCode } = await call(folder, ...readmeForm);
    expect([exitCode, stderr]).toEqual([0, expect.stringContaining("useCache has no effect")]);
    const summary = JSON.parse(stdout);
    expect(summary).toMatchObject({ status: "SUCCESS", rows: { total: 3, answered: 3 } });
    expect(summary).not.toHaveProperty("response");
    const results = resultsOf(folder, "out");
    expect(results).toMatchObject(rows.map((row) => ({ ...row, dataset: "Sample" })));
    for (const { answer } of results) expect(answer).toHaveLength(3);
    const { job } = JSON.parse(readFileSync(join(folder, "out/_sluice/plan.json"), "utf8"));
    expect(job).toMatchObject({ sequenceLen: 4096, truncateFeatures: ["response"] });
    expect(job.output.stripWhitespace).toBe(true);
    expect(existsSync(join(folder, "out/_report.json"))).toBe(false);
  });

  it("prints the report as its last line, and keeps it", async () => {
    const folder = folderWithRows();
    const { stdout } = await call(folder, ...readmeForm, "--report", "axolotl");
    expect(stdout).toBe(readFileSync(join(folder, "out/_report.json"), "utf8"));
    expect(stdout.trimEnd()).not.toContain("\n");
    const { response, ...summary } = JSON.parse(stdout);
    expect(summary).toMatchObject({ status: "SUCCESS", request_count: 3, response_count: 3 });
    expect(Object.keys(response[1])).toEqual([
      "prompt_tokens",
      "total_tokens",
      "total_response_tokens",
      "generate_time_sec",
      "prompt",
      "responses",
      "row",
      "dataset",
    ]);
    expect(response[1].prompt).toMatch(/### Input:\nHe is a cook\.\n\n### Response:\n$/);
    expect(response[1].responses).toHaveLength(3);
    const again = await call(folder, ...readmeForm, "--report", "axolotl");
    expect(again.stdout).toBe(stdout);
    // In a job file it asks for the file alone.
    writeFileSync(join(folder, "job.yaml"), "report: axolotl\n");
    const [, , ...flags] = readmeForm;
    const other = ["-c", "job.yaml", ...flags, "--output_dir", "other"];
    const { stdout: line } = await call(folder, "inference", "batch", ...other);
    expect(JSON.parse(line)).not.toHaveProperty("response");
    expect(existsSync(join(folder, "other/_report.json"))).toBe(true);
  });

  it("takes a config and a file of accelerate, and flags over them", async () => {
    const folder = folderWithRows();
    const config = `base_model: some-model
base_model_config: some-model
datasets:
  - {path: rows.json, name: A, type: gpteacher}
  - {path: rows.json, name: B, type: alpaca:chat}
sequence_len: 2048
generation_config: {max_new_tokens: 5}
learning_rate: 0.1
output_dir: from-config
`;
    writeFileSync(join(folder, "config.yaml"), config);
    writeFileSync(join(folder, "acc.yaml"), "gpu_ids: all\nnum_processes: 2\nuse_cpu: true\n");
    const files = ["-c", "config.yaml", "--accelerate", "acc.yaml"];
    const flags = ["--base_model", "fake", "--output_dir", "out", "--limit", "5"];
    const own = ["--output.stripWhitespace", "false", "--model.capacity", "2"];
    const { stdout, stderr } = await call(folder, "inference", "batch", ...files, ...flags, ...own);
    expect(stderr).toContain("not read, for training only: learning_rate");
    expect(JSON.parse(stdout)).toMatchObject({ rows: { total: 5, answered: 5 } });
    expect(resultsOf(folder, "out").map(({ dataset }) => dataset)).toEqual([..."AAABB"]);
    const { job } = JSON.parse(readFileSync(join(folder, "out/_sluice/plan.json"), "utf8"));
    expect(job).toMatchObject({ workers: { max: 2 }, generation: { maxNewTokens: 5 } });
    expect(job.output.stripWhitespace).toBe(false);
  });

  it("refuses two names that say different things, and a row that is too long", async () => {
    const folder = folderWithRows();
    const twice = await call(folder, ...readmeForm, "--model", "openai:m");
    expect(twice.stderr).toContain("--base_model and --model say the same");
    const rowsFile = await call(folder, "inference", "batch", "rows.jsonl");
    expect(rowsFile.stderr).toContain("hint: sluice inference batch --input rows.jsonl --model ");
    const short = readmeForm.map((arg) => (arg.startsWith("--seq") ? "--sequence_len=36" : arg));
    const { stdout } = await call(folder, ...short);
    expect(JSON.parse(stdout)).toMatchObject({
      rows: { answered: 2, failed: 1 },
      errors: { PROMPT_TOO_LONG: 1 },
    });
    const server = ["--base_model", "openai:m", "--base-url", "http://127.0.0.1:1/v1"];
    const unsupported = await call(folder, ...readmeForm, ...server);
    expect(unsupported.stderr).toMatch(/UNSUPPORTED.*engine openai cannot do sequenceLen/);
  });
});
