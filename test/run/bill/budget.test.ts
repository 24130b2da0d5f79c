import { describe, expect, it, vi } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { BudgetWatch, earlierCost } from "../../../src/run/bill/budget.ts";
import type { Budget } from "../../../src/run/bill/costs.ts";
import { manifestPath, planPath } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { endGeneration } from "../../../src/run/seal/seals.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { rowsOf } from "../run-fixture.ts";
import { scriptedEngine } from "../scripted-engine.ts";

const prices = { promptUsdPerMillion: 1_000_000, completionUsdPerMillion: 2_000_000 };
const usageOf = (promptTokens: number, completionTokens = 0) => ({
  promptTokens,
  cachedTokens: 0,
  completionTokens,
});

function watchOf(budget: Budget, changes: Partial<ConstructorParameters<typeof BudgetWatch>[0]>) {
  const clock = virtualClock();
  const events: RunEvent[] = [];
  const watch = new BudgetWatch({
    budget,
    prices: undefined,
    clock,
    earlier: { usage: usageOf(0), seconds: 0 },
    tasks: new Map(),
    onEvent: (event) => events.push(event),
    ...changes,
  });
  return { watch, clock, events };
}

describe("BudgetWatch", () => {
  it("adds what tasks tell, each as far as it ever told, to what was spent before", () => {
    const { watch } = watchOf(
      { tokens: 100 },
      { earlier: { usage: usageOf(10), seconds: 30 }, tasks: new Map([[7, usageOf(20, 5)]]) },
    );
    watch.start();
    watch.note(1, usageOf(30, 10));
    // Its worker died; the next attempt has found less of it so far.
    watch.note(1, usageOf(12, 2));
    expect(watch.spent.tokens).toBe(10 + 25 + 40);
    watch.note(1, usageOf(12, 12));
    expect(watch.spent).toEqual({ tokens: 10 + 25 + 42, usd: null, minutes: 0.5 });
    expect(watch.signal.aborted).toBe(false);
    watch.note(7, usageOf(43, 5));
    expect(watch.signal.reason).toMatchObject({ code: "BUDGET_SPENT", retryable: false });
    expect(watch.signal.reason.message).toContain("100 of 100 tokens");
  });

  it("counts money by the prices, and time by the clock", async () => {
    const money = watchOf({ usd: 7 }, { prices });
    money.watch.note(0, usageOf(2, 2));
    expect(money.watch.signal.aborted).toBe(false);
    money.watch.note(1, usageOf(1));
    expect(money.watch.signal.reason.message).toContain("7 of 7 usd");
    // Longer than a timer of Node can be set.
    const time = watchOf({ minutes: 50_000 }, { earlier: { usage: usageOf(0), seconds: 60 } });
    time.watch.start();
    const { clock, watch } = time;
    await clock.run(sleep(clock, 49_998 * 60_000), 1e12);
    expect(watch.signal.aborted).toBe(false);
    await clock.run(sleep(clock, 60_001), 1e12);
    expect(watch.signal.reason.message).toMatch(/ 50000\.?\d* of 50000 minutes/);
  });

  it("sets no timer that Node would let go off at once", () => {
    const clock = virtualClock();
    const schedule = vi.spyOn(clock, "schedule");
    const { watch } = watchOf({ minutes: 50_000 }, { clock });
    watch.start();
    expect(schedule.mock.calls.map(([delayMs]) => delayMs)).toEqual([2 ** 31 - 1]);
    watch.close();
  });

  it("tells at its end what the report before did not have yet", () => {
    const { watch, events } = watchOf({ tokens: 100 }, {});
    watch.start();
    watch.note(1, usageOf(30, 10));
    watch.close();
    expect(events.map((event) => event.type === "budget-progress" && event.spent.tokens)).toEqual([
      0, 40,
    ]);
  });

  it("leaves no timer behind", async () => {
    const { watch, clock } = watchOf({ minutes: 1 }, {});
    watch.start();
    watch.close();
    await clock.run(sleep(clock, 120_000));
    expect(watch.signal.aborted).toBe(false);
  });
});

/** Answers a row, of 7 + 3 tokens, in a second. */
const slowEngine = (runs: ReturnType<typeof memoryRuns>, capacity = 2) => {
  const engine = scriptedEngine(capacity, (request) => {
    runs.clock.schedule(1000, () => engine.held.find((held) => held.request === request)?.answer());
    return undefined;
  });
  return engine;
};

const budgeted = (budget: Budget, more: Partial<JobInput> = {}) => ({
  shard: { rows: 4 },
  model: { engine: "fake" as const },
  budget,
  ...more,
});

describe("earlierCost", () => {
  it("of a retry is the bill before it, with answers that no row kept", async () => {
    const storage = memoryStorage();
    const before = { usage: usageOf(10, 4), bill: { ...usageOf(15, 6), usd: null } };
    const bytes = recordBytes(before);
    await storage.replace(manifestPath, bytes);
    await storage.replace(planPath, recordBytes({ runId: "R1" }));
    await endGeneration(storage, {
      ...{ runId: "R1", generation: 1, end: "sealed", base: null, by: "a" },
      manifest: { path: manifestPath, sha256: sha256Hex(bytes), bytes: bytes.length },
    });
    const { usage } = await earlierCost(storage, { runId: "R1", generation: 2 });
    expect(usage).toMatchObject(usageOf(15, 6));
    // A retry that was dropped was paid for, too.
    await endGeneration(storage, {
      ...{ runId: "R1", generation: 2, end: "abandoned", base: 1, by: "b" },
      spent: { answers: 1, ...noUsage, ...usageOf(20, 2) },
    });
    const later = await earlierCost(storage, { runId: "R1", generation: 3 });
    expect(later.usage).toMatchObject(usageOf(35, 8));
  });
});

describe("a run with a budget", () => {
  it.each<[string, Budget, Partial<JobInput>]>([
    ["tokens", { tokens: 100 }, {}],
    ["money", { usd: 130 }, { prices }],
    ["minutes", { minutes: 5 / 60 }, {}],
  ])(
    "of %s stops cleanly, asks nothing while it is spent, and goes on once it is raised",
    async (_what, budget, more) => {
      const runs = memoryRuns(rowsOf(40), budgeted(budget, more));
      const first = await runs.run(slowEngine(runs));
      expect([first.error?.code, first.exitCode]).toEqual(["BUDGET_SPENT", 75]);
      expect([first.summary.status, first.summary.sealed]).toEqual(["CANCELED", false]);
      // 10 rows are what it allows; two are with the engine then, two more come in meanwhile.
      expect(first.summary.rows.answered).toBeGreaterThanOrEqual(10);
      expect(first.summary.rows.answered).toBeLessThanOrEqual(14);
      const same = slowEngine(runs);
      const second = await runs.run(same);
      expect([second.error?.code, same.asked]).toEqual(["BUDGET_SPENT", []]);
      const raised = { tokens: 4000, usd: 4000, minutes: 4000 };
      const rest = slowEngine(runs);
      const job = runs.job({ budget: raised, prices });
      const third = await runs.run(rest, job);
      expect([third.exitCode, third.summary.sealed]).toEqual([0, true]);
      expect(rest.asked).toHaveLength(40 - first.summary.rows.answered);
      expect(third.summary.usd).toBe(40 * 13);
      expect(await runs.damages()).toEqual([]);
    },
  );

  it("that is not spent seals, and says meanwhile what was", async () => {
    const runs = memoryRuns(rowsOf(6), budgeted({ tokens: 61 }));
    const { summary } = await runs.run(slowEngine(runs));
    expect(summary.sealed).toBe(true);
    const told = runs.events.filter(({ type }) => type === "budget-progress");
    expect(told[0]).toMatchObject({ spent: { tokens: 0 }, budget: { tokens: 61 } });
    expect(told.length).toBeGreaterThan(1);
    // The last report comes at the end, with all of it.
    const tokens = summary.prompt_tokens + summary.total_tokens_generated;
    expect(told.at(-1)).toMatchObject({ spent: { tokens } });
  });

  it("counts what rows cost whose answers had the wrong form, in an earlier call too", async () => {
    const answer = {
      line: "word={word}",
      slots: { word: { copyFrom: "text", maxWords: 1 } },
    };
    const more = { prompt: { prompt: "{{ text }}", answer }, retries: { maxAttempts: 100 } };
    const runs = memoryRuns(rowsOf(1), budgeted({ tokens: 95 }, more));
    const engine = scriptedEngine(1, () => {
      runs.clock.schedule(1000, () => engine.held[0]?.answer("no line"));
      return undefined;
    });
    const { error } = await runs.run(engine);
    expect(error?.code).toBe("BUDGET_SPENT");
    expect(engine.asked.length).toBeLessThanOrEqual(12);
    const again = willing();
    expect((await runs.run(again)).error?.code).toBe("BUDGET_SPENT");
    expect(again.asked).toEqual([]);
  });
});
