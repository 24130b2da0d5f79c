import { describe, expect, it } from "vitest";
import { jobSchema } from "../../../src/run/job/schema.ts";
import { effectNotices } from "../../../src/run/plan/notices.ts";

const told = (changes: object) =>
  effectNotices(
    jobSchema.parse({ input: "/i", prompt: "x", model: { engine: "fake" }, ...changes }),
  );

describe("what a job does beyond its files", () => {
  it("is nothing for most jobs", () => {
    expect(told({})).toEqual([]);
    expect(told({ env: { TOKEN: null } })).toEqual([]);
    const server = { engine: "openai", name: "m", baseUrl: "http://gpu:8000/v1" };
    expect(told({ model: server })).toEqual([]);
  });

  it("is what it executes", () => {
    const command = { engine: "command", command: "python3", args: ["p.py", 3] };
    expect(told({ model: command })).toEqual(["this job executes python3 p.py 3"]);
    const stages = [
      { kind: "map", column: "a", module: "/m.ts" },
      { kind: "generate", model: { engine: "predictor", module: "/p.ts" }, prompt: "x" },
      { kind: "filter", module: "/m.ts" },
    ];
    const pipeline = { engine: "pipeline", stages };
    expect(told({ model: pipeline, prompt: undefined })).toEqual([
      "this job executes /m.ts, /p.ts",
    ]);
    const vllm = { engine: "vllm", name: "o/n", args: ["--tokenizer", "https://h/?k=Zm9vYmFy1"] };
    expect(told({ model: vllm })).toEqual([
      "this job executes vllm --tokenizer https://h/?k=[redacted]",
    ]);
  });

  it("is what it sets, and which secrets go where", () => {
    expect(told({ env: { A: "1", B: "2", C: null } })).toEqual([
      "this job sets variables of its workers: A, B",
    ]);
    const endpoints = [
      { baseUrl: "https://gateway.example/v1", apiKeyEnv: "GATEWAY_KEY" },
      { baseUrl: "https://api.openai.com/v1" },
    ];
    const model = { engine: "openai", name: "m", endpoints };
    const store = { endpoint: "https://store.example" };
    expect(told({ model, input: "hf://datasets/o/n/*.jsonl", store })).toEqual([
      "this job sends secrets: GATEWAY_KEY to gateway.example, OPENAI_API_KEY to api.openai.com, " +
        "if it is set, HF_TOKEN to the hub, if it is set, what your keys of S3 sign to store.example",
    ]);
  });
});
