import { describe, expect, it } from "vitest";
import type { Plan } from "../../../src/run/plan/plan.ts";
import { standingSample } from "../../../src/run/preview/standing-sample.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { rowsOf } from "../run-fixture.ts";
import { scriptedEngine } from "../scripted-engine.ts";

describe("standingSample", () => {
  it("has what a stopped run cost: rows by their journals, sums from commits as well", async () => {
    const runs = memoryRuns(rowsOf(10), { shard: { rows: 4 }, budget: { tokens: 60 } });
    const engine = scriptedEngine(1, () => {
      runs.clock.schedule(1000, () => engine.held[0]?.answer());
      return undefined;
    });
    const { summary } = await runs.run(engine);
    const done = summary.rows.answered;
    expect(done).toBeGreaterThan(4);
    const storage = runs.store("/runs/out");
    const plan = JSON.parse(await runs.text("_sluice/plan.json")) as Plan;
    const found = await standingSample({ storage, plan });
    expect(found.rowsDone).toBe(done);
    expect(found.usage.promptTokens).toBe(done * 7);
    expect(found.costs).toHaveLength(done);
    expect(found.costs[0]).toMatchObject({ task: 0, usage: { completionTokens: 3 } });
    // Each was with the engine for the quarter of a second that it says, one after another.
    expect(found.pace!.together.estimated).toBeCloseTo((0.25 * done) / found.seconds, 6);
    expect(found.seconds).toBeGreaterThanOrEqual(done);
  });

  it("is empty for a run that was only planned", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(willing(), runs.job(), { signal: AbortSignal.abort() });
    const storage = runs.store("/runs/out");
    const plan = JSON.parse(await runs.text("_sluice/plan.json")) as Plan;
    expect(await standingSample({ storage, plan })).toMatchObject({ rowsDone: 0, costs: [] });
  });
});
