import { describe, expect, it } from "vitest";
import { formatNames } from "../../../src/data/formats/registry.ts";
import { jobSchema } from "../../../src/run/job/schema.ts";

const least = { input: "rows.jsonl", model: { engine: "fake" }, prompt: "Say {{ text }}" };

describe("jobSchema", () => {
  it("fills in every default of the least job", () => {
    expect(jobSchema.parse(least)).toMatchObject({
      input: [{ path: "rows.jsonl", maxLineBytes: 16 * 1024 * 1024 }],
      model: { engine: "fake", name: "fake", capacity: 64, seed: 0 },
      prompt: { prompt: "Say {{ text }}", api: "chat", onTooLong: "fail" },
      generation: { returnFullText: false },
      output: { path: "out", field: "answer", include: [] },
      retries: { maxAttempts: 3 },
      tasks: { maxRetries: 3 },
      onRowError: "dead-letter",
      backend: "local",
    });
  });

  it("gives the same job when it reads its own output", () => {
    const job = jobSchema.parse({ ...least, generation: { stop: "END" } });
    expect(job.generation.stop).toEqual(["END"]);
    expect(jobSchema.parse(JSON.parse(JSON.stringify(job)))).toEqual(job);
  });

  it("takes adapters of a model by their path alone, at full strength", () => {
    const lora = ["a.gguf", { path: "b.gguf", scale: 0.5 }];
    const { model } = jobSchema.parse({ ...least, model: { engine: "llama", name: "m", lora } });
    expect(model).toMatchObject({
      lora: [
        { path: "a.gguf", scale: 1 },
        { path: "b.gguf", scale: 0.5 },
      ],
    });
  });

  it("takes the formats that there are, and columns and schemas of rows", () => {
    const parsed = (input: object) => jobSchema.safeParse({ ...least, input });
    for (const format of formatNames) {
      const isBatch = format === "openai-batch";
      const job = { ...least, input: { path: "x", format }, ...(isBatch && { prompt: undefined }) };
      expect(jobSchema.safeParse(job).success, format).toBe(true);
    }
    const read = parsed({ path: "x.csv", columns: "id, the text", schema: { required: ["id"] } });
    expect(read.data?.input[0]?.columns).toEqual(["id", "the text"]);
    expect(parsed({ path: "x.csv", columns: [] }).success).toBe(false);
    const wrong = parsed({ path: "x.csv", schema: { properties: { id: { type: "int" } } } });
    expect(JSON.stringify(wrong.error?.issues)).toContain("not a JSON Schema of a row");
  });

  it("takes rows or a number of tasks, not both", () => {
    for (const shard of [{ rows: 2 }, { count: 2 }]) {
      expect(jobSchema.parse({ ...least, shard }).shard).toEqual(shard);
    }
    const { error } = jobSchema.safeParse({ ...least, shard: { rows: 2, count: 3 } });
    expect(error?.issues).toMatchObject([{ path: ["shard", "count"] }]);
  });

  it("takes memory as people write it, and shares below one", () => {
    for (const memory of ["120G", "1.5 GiB", "512MB"]) {
      expect(jobSchema.safeParse({ ...least, workers: { memory } }).success, memory).toBe(true);
    }
    expect(jobSchema.safeParse({ ...least, workers: { memory: "lots" } }).success).toBe(false);
    expect(jobSchema.safeParse({ ...least, maxFailedRows: 0.01 }).success).toBe(true);
    expect(jobSchema.safeParse({ ...least, maxFailedRows: 1.5 }).success).toBe(false);
  });

  it("wants exactly one of prompt and prompts", () => {
    expect(jobSchema.safeParse({ ...least, prompts: { a: "x" } }).success).toBe(false);
    expect(jobSchema.safeParse({ ...least, prompt: undefined }).success).toBe(false);
  });
});
