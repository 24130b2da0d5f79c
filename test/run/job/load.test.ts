import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { jobFolder, small } from "./job-folder.ts";

const { folder, load, fail } = jobFolder();

describe("loadJob", () => {
  it("lays file over defaults, environment over file, flags over all", async () => {
    const file = small("generation: { temperature: 0.1, topP: 0.1, topK: 1 }");
    const environment = {
      SLUICE_GENERATION__TEMPERATURE: "0.2",
      SLUICE_GENERATION__TOP_P: "0.2",
    };
    const { job, originOf } = await load(file, {
      environment,
      flags: { "generation.temperature": "0.3" },
    });
    expect(job.generation).toMatchObject({ temperature: 0.3, topP: 0.2, topK: 1 });
    expect(originOf("generation.temperature").from).toBe("flag");
    expect(originOf("generation.topP").from).toBe("environment");
    expect(originOf("generation.topK").from).toBe("file");
    expect(originOf("generation.minP").from).toBe("file");
    expect(originOf("workers.max").from).toBe("default");
  });

  it("lets --set have the last word", async () => {
    const { job } = await load(small(), {
      flags: { "generation.topK": "3" },
      sets: ["generation.topK=4", "generation.stop=[a, '#']"],
    });
    expect(job.generation.topK).toBe(4);
    expect(job.generation.stop).toEqual(["a", "#"]);
  });

  it("reads the file that SLUICE_CONFIG names", async () => {
    writeFileSync(join(folder, "named.yaml"), small("name: named"));
    const environment = { SLUICE_CONFIG: "named.yaml" };
    expect((await load(undefined, { environment })).job.name).toBe("named");
  });

  it("takes an output that is only a path", async () => {
    const model = "model: { engine: fake }";
    const text = `input: x.jsonl\n${model}\nprompt: a\noutput: results.jsonl`;
    const { job } = await load(text, { flags: { "output.field": "mood" } });
    const path = join(folder, "results.jsonl");
    expect(job.output).toEqual({ path, field: "mood", include: [] });
    const trial = await load(text, { flags: { limit: "3" } });
    expect(trial.job.output.path).toBe(join(folder, "results-limit3.jsonl"));
    const other = await load(text, { environment: { SLUICE_OUTPUT: "y.jsonl" } });
    expect(other.job.output.path).toBe(join(folder, "y.jsonl"));
  });

  it("reads JSON, with tabs", async () => {
    const text = JSON.stringify(
      { input: "x.txt", model: { engine: "fake" }, prompt: "a" },
      null,
      "\t",
    );
    expect((await load(text, {}, "job.json")).job.input[0]?.path).toBe(join(folder, "x.txt"));
  });

  it("makes a job of flags alone", async () => {
    const flags = {
      input: ["a", "b"],
      model: "fake",
      prompt: "{a: b}",
      output: "y.jsonl",
      seed: "7",
    };
    const { job } = await load(undefined, { flags });
    expect(job).toMatchObject({
      input: [{ path: join(folder, "a") }, { path: join(folder, "b") }],
      model: { engine: "fake" },
      prompt: { prompt: "{a: b}" },
      output: { path: join(folder, "y.jsonl") },
      generation: { seed: 7 },
    });
  });

  it("takes lists of files from flags, after the files that are named one by one", async () => {
    const flags = {
      input: "a",
      "input-list": ["b.txt", "s3://x/c.txt"],
      model: "fake",
      prompt: "p",
    };
    const { job } = await load(undefined, { flags });
    expect(job.input).toMatchObject([
      { path: join(folder, "a") },
      { path: join(folder, "b.txt"), list: true },
      { path: "s3://x/c.txt", list: true },
    ]);
    const alone = await load(undefined, { flags: { ...flags, input: undefined } });
    expect(alone.job.input).toHaveLength(2);
  });

  it("says how a job is given when there is none", async () => {
    const error = await fail(undefined);
    expect(error.code).toBe("USAGE");
    expect(error.hint).toContain("sluice init");
  });

  it("names a job file that is not there", async () => {
    const error = await fail(undefined, { file: "gone.yaml" });
    expect(error.code).toBe("JOB_INVALID");
    expect(error.message).toContain("gone.yaml");
  });
});

describe("paths", () => {
  it("start from the file's directory in the file, else from the working directory", async () => {
    mkdirSync(join(folder, "sub"), { recursive: true });
    writeFileSync(join(folder, "sub/job.yaml"), small("output: { path: results }"));
    const own = await load(undefined, { file: "sub/job.yaml" });
    expect(own.job.input[0]?.path).toBe(join(folder, "sub/rows.jsonl"));
    expect(own.job.output.path).toBe(join(folder, "sub/results"));
    const sets = ["input.path=other.jsonl"];
    const other = await load(undefined, {
      file: "sub/job.yaml",
      sets,
      environment: { SLUICE_OUTPUT__PATH: "here" },
    });
    expect(other.job.input[0]?.path).toBe(join(folder, "other.jsonl"));
    expect(other.job.output.path).toBe(join(folder, "here"));
  });

  it("reads the default output as if it stood in the file", async () => {
    mkdirSync(join(folder, "deep"), { recursive: true });
    writeFileSync(join(folder, "deep/job.yaml"), small());
    const { job } = await load(undefined, { file: "deep/job.yaml" });
    expect(job.output.path).toBe(join(folder, "deep/out"));
  });

  it("leaves stdin and addresses alone, and knows the home directory", async () => {
    const text = small("output: { path: ~/out }").replace("rows.jsonl", "[{path: '-'}]");
    const { job } = await load(text, { environment: { HOME: "/home/me" } });
    expect(job.input[0]?.path).toBe("-");
    expect(job.output.path).toBe("/home/me/out");
    const hub = await load(small(), { flags: { model: "hf:a/b/c.gguf" } });
    expect(hub.job.model.name).toBe("hf:a/b/c.gguf");
  });

  it("makes a model's path absolute for llama, never a server's model name", async () => {
    const llama = await load(small(), { flags: { model: "tiny.gguf" } });
    expect(llama.job.model).toEqual({ engine: "llama", name: join(folder, "tiny.gguf") });
    const server = await load(small(), { flags: { model: "openai:org/tiny.gguf" } });
    expect(server.job.model.name).toBe("org/tiny.gguf");
  });
});

describe("--limit and --sample", () => {
  it("write beside the real run, unless the output is named", async () => {
    const limited = await load(small("output: { path: out }"), { flags: { limit: "20" } });
    expect(limited.job.output.path).toBe(join(folder, "out-limit20"));
    const sampled = await load(small("output: { path: r.jsonl }"), { flags: { sample: "5" } });
    expect(sampled.job.output.path).toBe(join(folder, "r-sample5.jsonl"));
    const named = await load(small(), { flags: { limit: "20", output: "there" } });
    expect(named.job.output.path).toBe(join(folder, "there"));
  });

  it("leave the output alone when the job file holds the limit", async () => {
    const { job } = await load(small("limit: 20"));
    expect(job.output.path).toBe(join(folder, "out"));
  });
});

describe("--model", () => {
  const server = small().replace(
    "{ engine: fake }",
    "{ engine: openai, name: a, apiKeyEnv: KEY, maxInFlight: 3 }",
  );

  it("keeps how the same engine is driven", async () => {
    const { job } = await load(server, { flags: { model: "openai:b" } });
    expect(job.model).toMatchObject({ name: "b", apiKeyEnv: "KEY", maxInFlight: 3 });
  });

  it("leaves the places of the job file in its folder", async () => {
    const file = small().replace("{ engine: fake }", "{ engine: llama, name: a, lora: x.gguf }");
    mkdirSync(join(folder, "jobs"), { recursive: true });
    const { job, originOf } = await load(file, { flags: { model: "./m.gguf" } }, "jobs/job.yaml");
    const lora = [{ path: join(folder, "jobs", "x.gguf") }];
    expect(job.model).toMatchObject({ name: join(folder, "m.gguf"), lora });
    expect(originOf("model.lora").from).toBe("file");
  });

  it("starts anew with another engine", async () => {
    const { job } = await load(server, { flags: { model: "fake" } });
    expect(job.model).toMatchObject({ engine: "fake", name: "fake" });
    expect(job.model).not.toHaveProperty("maxInFlight");
  });

  it("means a server's model when a server is named", async () => {
    const flags = { model: "qwen", "base-url": "http://127.0.0.1:1/v1" };
    const { job } = await load(small(), { flags });
    expect(job.model).toMatchObject({ engine: "openai", name: "qwen", baseUrl: flags["base-url"] });
  });
});

describe("environment of the workers", () => {
  it("is set by --env K=V and passed by --env K", async () => {
    const { job } = await load(small("env: { A: file, B: file }"), {
      flags: { env: ["A=1=2", "TOKEN"] },
    });
    expect(job.env).toEqual({ A: "1=2", B: "file", TOKEN: null });
  });
});
