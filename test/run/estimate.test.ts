import { describe, expect, it } from "vitest";
import { estimateFrom, sampleRequests } from "../../src/run/estimate.ts";
import type { JobInput } from "../../src/run/job/schema.ts";
import { plannedRun } from "./run-fixture.ts";

const estimated = async (rows: readonly string[], changes: Partial<JobInput>) => {
  const { context } = await plannedRun(rows, changes);
  const { plan } = context;
  return estimateFrom(plan.job, plan, await sampleRequests(context));
};

describe("estimateFrom", () => {
  const rows = Array.from({ length: 30 }, () => '{"text":"four"}');

  it("counts a prompt's characters, and every answer at its longest", async () => {
    const { requests, tokens } = await estimated(rows, {
      prompt: "{{ text }}",
      generation: { maxNewTokens: 100 },
    });
    expect(requests).toEqual({ planned: 30, estimated: 30 });
    expect(tokens).toMatchObject({ prompt: 30, maxCompletion: 3000 });
  });

  it("counts several answers to a prompt, by the default length where none is given", async () => {
    const generation = { numReturnSequences: 3, temperature: 1 };
    expect((await estimated(rows, { generation })).tokens.maxCompletion).toBe(30 * 3 * 256);
    const bounded = { ...generation, maxLength: 101 };
    const { tokens } = await estimated(rows, { generation: bounded });
    expect(tokens.maxCompletion).toBe(30 * 3 * 100);
  });

  it("knows the requests of lists only from the sample, which leaves out broken rows", async () => {
    const lists = ['{"list":["a","b"]}', "{broken", '{"list":["c"]}', '{"list":[]}'];
    const prompt = { prompt: "{{ item }}", forEach: "list" };
    const { requests } = await estimated(lists, { prompt });
    expect(requests).toEqual({ planned: null, estimated: 4 });
  });
});
