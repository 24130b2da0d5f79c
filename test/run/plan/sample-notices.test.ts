import { describe, expect, it } from "vitest";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { firstRowsNotices } from "../../../src/run/plan/notices.ts";
import { inputPath, plannedRun } from "../run-fixture.ts";

const noticesFor = async (
  rows: readonly string[],
  changes: Partial<JobInput> = {},
  stop = new AbortController(),
) => {
  const { context } = await plannedRun(rows, changes);
  return await firstRowsNotices(context, stop.signal);
};

describe("questions without answers between them", () => {
  const rows = ['{"turns":["one"]}', '{"turns":["one","two"]}', '{"turns":["three","four"]}'];
  const prompt = { type: "chat_template", typeOptions: { field_messages: "turns" } } as const;
  const first = `${inputPath}:2 has several messages of the user`;

  it("are told once, with the key that asks them otherwise", async () => {
    const [notice, ...more] = await noticesFor(rows, { prompt });
    expect(notice).toContain(first);
    expect(notice).toContain("set prompt.turns to every");
    expect(more).toEqual([]);
  });

  it("are not told once the run is stopped", async () => {
    const stop = new AbortController();
    stop.abort();
    expect(await noticesFor(rows, { prompt }, stop)).toEqual([]);
  });

  it("are told by the key of their prompt", async () => {
    const [notice] = await noticesFor(rows, { prompt: undefined, prompts: { said: prompt } });
    expect(notice).toContain("set prompts.said.turns to every");
  });

  it.each(["first", "last", "every"] as const)("are as wanted with turns: %s", async (turns) => {
    expect(await noticesFor(rows, { prompt: { ...prompt, turns } })).toEqual([]);
  });

  it("are none where the model's turns are recorded", async () => {
    const messages = [
      { role: "user", content: "one" },
      { role: "assistant", content: "1" },
      { role: "user", content: "two" },
    ];
    const type = "chat_template";
    expect(await noticesFor([JSON.stringify({ messages })], { prompt: { type } })).toEqual([]);
  });
});

describe("a field that the answer replaces", () => {
  const rows = ['{"text":"a"}', "no JSON", '{"text":"b","answer":"gold"}'];

  it("is told, with its place and the key", async () => {
    const [notice, ...more] = await noticesFor(rows);
    expect(notice).toContain(`rows have a field answer already (${inputPath}:3)`);
    expect(notice).toContain("output.field");
    expect(more).toEqual([]);
  });

  it("is none under another name", async () => {
    expect(await noticesFor(rows, { output: { path: "/run/out", field: "mine" } })).toEqual([]);
  });
});
