import { describe, expect, it } from "vitest";
import { noUsage } from "../../../src/foundation/inference.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { openCounts } from "../../../src/run/status/stopped-counts.ts";
import { answer, openAttempt } from "../attempt/open-attempt.ts";
import { memoryRuns } from "../memory-runs.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const heard = { answered: 1, usage: { ...noUsage, completionTokens: 3 } };

describe("the counts of a run that stopped", () => {
  it("hold what earlier calls answered in tasks that this one did not begin", async () => {
    const run = await plannedRun(rowsOf(6), { shard: { rows: 2 } });
    for (const task of [0, 1]) {
      const attempt = await openAttempt(run, task);
      answer(attempt, task * 2);
      await attempt.close();
    }
    const open = await openCounts(run.context, new Set([2]), heard);
    expect(open).toMatchObject({ answered: 2, usage: { promptTokens: 14, completionTokens: 6 } });
    const one = await openCounts(run.context, new Set([0, 2]), heard);
    expect(one).toMatchObject({ answered: 1, usage: { promptTokens: 7 } });
  });

  it("are what workers said where the journals cannot be read, or are too many", async () => {
    const { context } = await plannedRun(rowsOf(2));
    const broken = {
      ...context.storage,
      list: () => {
        throw new Error("down");
      },
    };
    const storage = broken as unknown as typeof context.storage;
    expect(await openCounts({ ...context, storage }, new Set(), heard)).toEqual(heard);
    const count = limits.maxCountedTasks + 1;
    const plan = { ...context.plan, tasks: { ...context.plan.tasks, count } };
    expect(await openCounts({ ...context, plan }, new Set(), heard)).toEqual(heard);
  });

  it("never fall from one stop to the next", async () => {
    const runs = memoryRuns(rowsOf(12), { shard: { rows: 4 } });
    const answered: number[] = [];
    for (const last of [2, 7, 8]) {
      const stop = new AbortController();
      const engine = scriptedEngine(1, ({ index }) => {
        if (index >= last) stop.abort();
        return responseOf("yes");
      });
      const { summary } = await runs.run(engine, runs.job(), { signal: stop.signal });
      answered.push(summary.rows.answered);
    }
    expect(answered).toEqual(answered.toSorted((a, b) => a - b));
    expect(answered[0]).toBeGreaterThan(0);
    expect((await runs.run()).summary.rows).toMatchObject({ answered: 12, failed: 0 });
  });
});
