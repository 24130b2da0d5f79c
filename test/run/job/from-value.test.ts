import { describe, expect, it } from "vitest";
import { z } from "zod";
import { jobFromValue } from "../../../src/run/job/from-value.ts";

const least = { input: "rows.jsonl", model: { engine: "fake" } } as const;
const zod = z.object({ name: z.string().optional(), stars: z.int().min(1).max(5) });
const json = {
  type: "object",
  properties: { name: { type: "string" }, stars: { type: "integer", minimum: 1, maximum: 5 } },
  required: ["stars"],
};

describe("jobFromValue", () => {
  it("turns zod schemas into JSON Schema, wherever a job has one", () => {
    const beside = jobFromValue({ ...least, prompt: "x", schema: zod }, "/data");
    expect(beside.schema).toMatchObject(json);
    const within = jobFromValue({ ...least, prompt: { prompt: "x", schema: zod } }, "/data");
    expect(within.prompt!.schema).toMatchObject(json);
    const prompts = { "a.b": { prompt: "x", schema: zod }, plain: "y", c: { prompt: "z" } };
    const several = jobFromValue({ ...least, prompts }, "/data");
    expect(several.prompts!["a.b"]!.schema).toMatchObject(json);
    expect(JSON.parse(JSON.stringify(several))).toEqual(several);
    const input = { path: "rows.csv", schema: zod };
    const [of] = jobFromValue({ ...least, prompt: "x", input }, "/data").input;
    expect(of?.schema).toMatchObject(json);
    const listed = jobFromValue({ ...least, prompt: "x", input: [{ path: "a.csv" }, input] }, "/");
    expect(listed.input[1]?.schema).toMatchObject(json);
  });

  it("leaves JSON Schema as it is, nulls and the order of its keys included", () => {
    const schema = {
      type: "object",
      properties: { z: { enum: [null, "a"] }, a: { const: null } },
      required: [],
    };
    const job = jobFromValue({ ...least, prompt: "x", schema }, "/data");
    expect(JSON.stringify(job.schema)).toBe(JSON.stringify(schema));
  });

  it("refuses what JSON Schema cannot say, naming the key", () => {
    const schema = z.object({ day: z.date() });
    expect(() => jobFromValue({ ...least, prompts: { a: { prompt: "x", schema } } }, "/")).toThrow(
      expect.objectContaining({ code: "JOB_INVALID", place: { field: "prompts.a.schema" } }),
    );
  });

  it("refuses a schema beside prompts, one given twice, and one without a prompt", () => {
    const schema = { type: "string" };
    const prompts = { a: "x" };
    expect(() => jobFromValue({ ...least, prompts, schema }, "/")).toThrow("prompts.NAME.schema");
    const prompt = { prompt: "x", schema };
    expect(() => jobFromValue({ ...least, prompt, schema }, "/")).toThrow("give one of them");
    const input = { path: "a.jsonl", format: "openai-batch" as const };
    expect(() => jobFromValue({ ...least, input, schema }, "/")).toThrow("it goes with prompt");
  });
});
