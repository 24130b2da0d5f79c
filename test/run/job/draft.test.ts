import { describe, expect, it } from "vitest";
import { JobDraft } from "../../../src/run/job/draft.ts";
import type { Origin } from "../../../src/run/job/problem.ts";

const file: Origin = { from: "file", file: "job.yaml", lineOf: () => 1 };
const flag = (name: string): Origin => ({ from: "flag", name });

describe("JobDraft", () => {
  it("knows which layer set a value, or something around it", () => {
    const draft = new JobDraft();
    draft.set(["generation"], { topP: 0.5, topK: 3 }, file);
    draft.set(["generation", "topP"], 1, flag("--generation.topP"));
    expect(draft.value).toEqual({ generation: { topP: 1, topK: 3 } });
    expect(draft.originOf(["generation", "topP"])).toEqual(flag("--generation.topP"));
    expect(draft.originOf(["generation", "topK"])).toBe(file);
    expect(draft.originOf(["limit"])).toEqual({ from: "default" });
    draft.set(["generation"], {}, flag("--set generation"));
    expect(draft.originOf(["generation", "topP"])).toEqual(flag("--set generation"));
  });

  it("takes a value back with null, save for a variable that is passed on", () => {
    const draft = new JobDraft();
    draft.set(["limit"], 3, file);
    draft.set(["limit"], null, flag("--limit"));
    draft.set(["env", "TOKEN"], null, flag("--env TOKEN"));
    expect(draft.value).toEqual({ env: { TOKEN: null } });
  });

  it("unfolds what was written short", () => {
    const draft = new JobDraft();
    draft.set(["input"], "rows.jsonl", file);
    draft.set(["prompts"], { a: "x" }, file);
    draft.set(["input", "id"], "key", flag("--input.id"));
    draft.set(["prompts", "a", "system"], "s", flag("--set prompts.a.system"));
    draft.set(["output"], "out", file);
    draft.set(["output", "field"], "mood", flag("--output.field"));
    expect(draft.value).toEqual({
      output: { path: "out", field: "mood" },
      input: { path: "rows.jsonl", id: "key" },
      prompts: { a: { prompt: "x", system: "s" } },
    });
  });

  it("means the only input of a list, and never one of several", () => {
    const draft = new JobDraft();
    draft.set(["input"], [{ path: "a" }], file);
    draft.set(["input", "path"], "b", flag("--input.path"));
    expect(draft.value).toEqual({ input: [{ path: "b" }] });
    expect(draft.originOf(["input", "0", "path"]).from).toBe("flag");
    draft.set(["input", "1"], { path: "c" }, flag("--set input.1"));
    expect(() => draft.set(["input", "path"], "d", flag("x"))).toThrow(/input\.0\.path/);
    expect(() => draft.set(["input", "5"], {}, flag("x"))).toThrow(/only 2 entries/);
  });

  it("lets a later layer choose between prompt and prompts, and keeps both of one layer", () => {
    const draft = new JobDraft();
    draft.set(["prompt"], "x", file);
    draft.set(["prompts"], { a: "y" }, file);
    expect(Object.keys(draft.value)).toEqual(["prompt", "prompts"]);
    draft.set(["prompts", "a"], "z", flag("--set prompts.a"));
    expect(draft.value).toEqual({ prompts: { a: "z" } });
    draft.set(["prompt"], "w", { from: "environment", name: "SLUICE_PROMPT" });
    expect(draft.value).toEqual({ prompt: "w" });
  });

  it("lets a later layer choose between rows and number of tasks", () => {
    const draft = new JobDraft();
    draft.set(["shard"], { rows: 5 }, file);
    draft.set(["shard", "count"], 3, flag("--shard.count"));
    expect(draft.value).toEqual({ shard: { count: 3 } });
    draft.set(["shard", "rows"], 7, flag("--shard.rows"));
    expect(draft.value).toEqual({ shard: { count: 3, rows: 7 } });
  });
});
