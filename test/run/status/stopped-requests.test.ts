import { describe, expect, it } from "vitest";
import { requestsOfStopped } from "../../../src/run/status/stopped-counts.ts";
import { memoryRuns } from "../memory-runs.ts";
import { plannedRun, rowsOf, withContext } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const prompts = {
  each: { prompt: "Say {{ item }}", forEach: "steps" },
  whole: "Say {{ steps | join }}",
};
const none = {
  rows: { total: 0, answered: 0, filtered: 0, failed: 0, results: 0 },
  requests: { planned: 0, answered: 0 },
};
const lists = (count: number) =>
  Array.from({ length: count }, (_, at) =>
    JSON.stringify({ steps: Array.from({ length: (at % 2) * 3 }, (_, step) => `${step}`) }),
  );

describe("the requests of a run that stopped", () => {
  it("are rows × prompts × elements in its summary", async () => {
    const runs = memoryRuns(lists(8), { prompts, prompt: undefined, shard: { rows: 2 } });
    const stop = new AbortController();
    const engine = scriptedEngine(1, ({ index }) => {
      if (index === 4) stop.abort();
      return responseOf("yes");
    });
    const { summary } = await runs.run(engine, runs.job(), { signal: stop.signal });
    const counts = { request_count: 20, response_count: engine.asked.length };
    expect(summary).toMatchObject({ status: "CANCELED", ...counts });
    expect((await runs.run()).summary).toMatchObject({ request_count: 20, response_count: 20 });
  });

  it("count every prompt of a row that was answered", async () => {
    const two = { one: "Say {{ text }}", two: "Sing {{ text }}" };
    const { context } = await plannedRun(rowsOf(10), { prompts: two, prompt: undefined });
    expect(await requestsOfStopped(context, none, { answered: 4 })).toEqual({
      planned: 20,
      answered: 8,
    });
  });

  it("are estimated where a run is large and lists decide", async () => {
    const rows = lists(4000);
    const { context } = await plannedRun(rows, { prompts, prompt: undefined });
    expect(await requestsOfStopped(context, none, { answered: 40, responses: 100 })).toEqual({
      planned: 10_000,
      answered: 100,
    });
    const committed = {
      rows: { ...none.rows, total: 2000 },
      requests: { planned: 8000, answered: 7000 },
    };
    const half = await requestsOfStopped(context, committed, { answered: 0 });
    expect(half).toEqual({ planned: 13_000, answered: 7000 });
  });

  it("count a list once where the input is gone", async () => {
    const run = await plannedRun(lists(6), { prompts, prompt: undefined });
    const openFile = () => Promise.reject(new Error("gone"));
    const context = withContext(run, { openFile });
    expect(await requestsOfStopped(context, none, { answered: 0 })).toEqual({
      planned: 12,
      answered: 0,
    });
  });
});
