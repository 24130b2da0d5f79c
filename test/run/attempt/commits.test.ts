import { describe, expect, it } from "vitest";
import { FailedRows } from "../../../src/run/attempt/commits.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";
import { fail, openAttempt } from "./open-attempt.ts";

describe("FailedRows", () => {
  it("counts each commit once, as it comes", async () => {
    const run = await plannedRun(rowsOf(6), { shard: { rows: 2 } });
    const failedRows = new FailedRows(run.storage, run.plan);
    const commit = async (task: number) => {
      const attempt = await openAttempt(run, task);
      for (const row of [0, 1]) fail(attempt, task * 2 + row);
      await attempt.commit();
    };
    expect(await failedRows.fresh()).toBe(0);
    await commit(0);
    expect(await failedRows.fresh()).toBe(2);
    await commit(1);
    await commit(2);
    expect(await failedRows.fresh(new Set([1]))).toBe(2);
    expect(await failedRows.fresh(new Set([1]))).toBe(0);
  });
});
