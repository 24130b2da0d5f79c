import { describe, expect, it } from "vitest";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { cutNotice, cutRetryOf } from "../../../src/run/status/cut-answers.ts";
import { memoryRuns } from "../memory-runs.ts";
import { jobOf, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

describe("the command that processes rows with cut answers again", () => {
  const limit = (generation: JobInput["generation"]) =>
    cutRetryOf(jobOf({ generation }), "out")?.split("--set ")[1];

  it("doubles the limit that is written", () => {
    expect(limit({ maxNewTokens: 60 })).toBe("generation.maxNewTokens=120");
    expect(limit({ maxLength: 500 })).toBe("generation.maxLength=1000");
    expect(limit({})).toBe("generation.maxNewTokens=4096");
  });

  it("is not told where rows name their own limits", () => {
    const input = { path: "in.jsonl", format: "openai-batch" as const };
    const job = jobOf({ input, prompt: undefined, output: { format: "openai-batch" } });
    expect(cutRetryOf(job, "out")).toBeUndefined();
    const rows = { total: 2, answered: 1, filtered: 0, failed: 1, results: 1 };
    expect(cutNotice({ rows, cut: 1 }, job, "out")).toBe(
      "1 of 1 answered row has an answer that was cut at the limit of tokens",
    );
    expect(cutNotice({ rows, cut: 0 }, job, "out")).toBeUndefined();
  });
});

describe("cut answers", () => {
  const cutting = (...rows: number[]) =>
    scriptedEngine(2, ({ index }) => responseOf("said", rows.includes(index) ? "length" : "stop"));

  it("are counted in the summary, at the seal and after each retry", async () => {
    const runs = memoryRuns(rowsOf(8), { shard: { rows: 3 } });
    const ends: unknown[] = [(await runs.run(cutting(1, 4, 5))).summary.finish_reasons];
    for (const rows of [[4, 5], [5], []]) {
      const result = await runs.retry(cutting(...rows), "finish_reason=length");
      ends.push(result!.summary.finish_reasons);
      expect(await runs.damages()).toEqual([]);
    }
    expect(ends).toEqual([
      { stop: 5, length: 3 },
      { stop: 6, length: 2 },
      { stop: 7, length: 1 },
      { stop: 8, length: 0 },
    ]);
    const told = runs.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));
    expect(told.filter((message) => message.includes("cut at the limit"))).toEqual([
      expect.stringContaining("3 of 8"),
      expect.stringContaining("2 of 8"),
      expect.stringContaining("1 of 8"),
    ]);
  });

  it("are counted in a run that stopped", async () => {
    const runs = memoryRuns(rowsOf(8), { shard: { rows: 3 } });
    const stop = new AbortController();
    const engine = scriptedEngine(1, ({ index }) => {
      if (index === 4) stop.abort();
      return responseOf("said", index % 2 === 1 ? "length" : "stop");
    });
    const { summary } = await runs.run(engine, runs.job(), { signal: stop.signal });
    const { answered } = summary.rows;
    expect(summary.finish_reasons).toEqual({ stop: answered - 2, length: 2 });
  });
});
