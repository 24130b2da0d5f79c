import { describe, expect, it } from "vitest";
import { sleep } from "../../../src/foundation/clock.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { BillTally } from "../../../src/run/bill/bill.ts";
import { noPaidAnswers } from "../../../src/run/bill/costs.ts";
import { coordinatorPaths, planPath } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import type { Manifest } from "../../../src/run/seal/manifest.ts";
import { sealRun } from "../../../src/run/seal/seal.ts";
import { answer, openAttempt } from "../attempt/open-attempt.ts";
import { type MemoryRuns, memoryRuns, willing } from "../memory-runs.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const prices = { promptUsdPerMillion: 10_000, completionUsdPerMillion: 100_000 };
const slots = { word: { copyFrom: "text", maxWords: 2 } };
const asksForms = { prompt: { prompt: "{{ text }}", answer: { line: "word={word}", slots } } };

async function manifestOf(runs: MemoryRuns, path = "_manifest.json"): Promise<Manifest> {
  return JSON.parse(await runs.text(path)) as Manifest;
}

describe("the bill of a run", () => {
  it("has tokens, money and seconds, and names what was paid for wrong answers", async () => {
    const runs = memoryRuns(rowsOf(6), { ...asksForms, prices, shard: { rows: 2 } });
    const engine = scriptedEngine(4, ({ index }, before) =>
      responseOf(index === 3 && before === 0 ? "no line" : `word=row ${index}`),
    );
    const { summary } = await runs.run(engine);
    const { bill, usage } = await manifestOf(runs);
    expect(engine.asked).toHaveLength(7);
    expect(usage).toEqual({ promptTokens: 49, cachedTokens: 0, completionTokens: 21 });
    expect(bill).toMatchObject({
      ...usage,
      usd: 0.49 + 2.1,
      prices,
      paidTwice: {
        invalid: { answers: 1, promptTokens: 7, cachedTokens: 0, completionTokens: 3 },
        lost: noPaidAnswers,
      },
    });
    expect(summary.usd).toBe(bill!.usd);
    expect(await runs.damages()).toEqual([]);
  });

  it("counts a wrong answer of an earlier call once, and no pause between calls", async () => {
    const runs = memoryRuns(rowsOf(1), asksForms);
    const stop = new AbortController();
    const wrong = scriptedEngine(1, (_request, before) => {
      if (before === 1) stop.abort();
      runs.clock.schedule(10_000, () => wrong.held[0]?.answer("no line"));
      return undefined;
    });
    await runs.run(wrong, runs.job({ retries: { maxAttempts: 9 } }), { signal: stop.signal });
    await runs.clock.run(sleep(runs.clock, 3_600_000));
    const right = scriptedEngine(1, () => {
      runs.clock.schedule(10_000, () => right.held[0]?.answer("word=row 0"));
      return undefined;
    });
    await runs.run(right);
    const { bill } = await manifestOf(runs);
    expect(bill?.paidTwice.invalid.answers).toBe(2);
    expect(bill?.promptTokens).toBe(3 * 7);
    expect([bill?.usd, bill?.prices]).toEqual([null, null]);
    expect(bill?.wallSeconds).toBeGreaterThanOrEqual(30);
    expect(bill?.wallSeconds).toBeLessThan(40);
    expect(await runs.damages()).toEqual([]);
  });

  it("adds what a retry cost, at its own prices", async () => {
    const runs = memoryRuns(rowsOf(4), { ...asksForms, prices, maxFailedRows: 4 });
    const failing = scriptedEngine(4, ({ index }) =>
      responseOf(index === 2 ? "no line" : `word=row ${index}`),
    );
    await runs.run(failing);
    const first = (await manifestOf(runs)).bill!;
    expect(first.paidTwice.invalid.answers).toBe(3);
    await runs.clock.run(sleep(runs.clock, 3_600_000));
    const dearer = { promptUsdPerMillion: 20_000, completionUsdPerMillion: 100_000 };
    const engine = scriptedEngine(4, ({ index }, before) =>
      responseOf(before === 0 ? "no line" : `word=row ${index}`),
    );
    await runs.retry(engine, "failed", undefined, async (job) => ({ ...job, prices: dearer }));
    const { bill } = await manifestOf(runs, "_manifest.g2.json");
    expect(bill).toMatchObject({
      promptTokens: first.promptTokens + 14,
      usd: first.usd! + 14 * 0.02 + 6 * 0.1,
      prices: dearer,
      paidTwice: { invalid: { answers: 4 } },
    });
    expect(bill!.wallSeconds).toBeLessThan(first.wallSeconds + 60);
    expect(await runs.damages()).toEqual([]);
  });

  it("has nothing of answers that were taken from an equal request, right or wrong", async () => {
    const changes = { ...asksForms, retries: { maxAttempts: 1 }, maxFailedRows: 4 };
    const runs = memoryRuns(rowsOf(4), changes);
    const engine = scriptedEngine(1, ({ index }) => ({
      ...responseOf(index < 2 ? `word=row ${index}` : "no line"),
      ...(index % 2 === 1 && { reused: true }),
    }));
    const { summary } = await runs.run(engine);
    expect(summary.rows).toMatchObject({ answered: 2, failed: 2 });
    const { bill } = await manifestOf(runs);
    expect([bill?.promptTokens, bill?.paidTwice.invalid.answers]).toEqual([14, 1]);
  });

  it("of a run whose answers all came from a journal counts them once", async () => {
    const runs = memoryRuns(rowsOf(8), { shard: { rows: 8 } });
    const stop = new AbortController();
    const engine = scriptedEngine(1, ({ index }) => {
      if (index === 5) stop.abort();
      return responseOf("yes");
    });
    await runs.run(engine, runs.job(), { signal: stop.signal });
    await runs.run(willing());
    const { bill } = await manifestOf(runs);
    expect([bill?.promptTokens, bill?.paidTwice.lost]).toEqual([8 * 7, noPaidAnswers]);
  });
});

describe("the bill of a retry", () => {
  it("has what abandoned retries cost, and the time since the seal before", async () => {
    const { storage, plan, clock } = (await plannedRun(rowsOf(1))).context;
    const startMs = clock.now();
    for (const [number, startedMs] of [
      [1, startMs - 100_000],
      [2, startMs - 20_000],
    ] as const) {
      const { heartbeat } = coordinatorPaths(number);
      const startedAt = new Date(startedMs).toISOString();
      await storage.replace(heartbeat, recordBytes({ startedAt, seconds: 20, beat: 1 }));
    }
    const lost = { answers: 2, promptTokens: 14, cachedTokens: 0, completionTokens: 6 };
    const paid = { invalid: noPaidAnswers, lost };
    const sealed = { ...noUsage, usd: null, prices: null, busySeconds: 9, wallSeconds: 20 };
    const earlier = { bill: { ...sealed, paidTwice: paid }, lost, sealedMs: startMs - 80_000 };
    const context = { storage, plan, clock };
    const bill = await new BillTally().bill(context, new Map(), undefined, earlier);
    expect(bill.paidTwice.lost).toEqual({
      ...lost,
      answers: 4,
      promptTokens: 28,
      completionTokens: 12,
    });
    expect(bill.wallSeconds).toBe(40);
  });
});

describe("answers of attempts that lost", () => {
  it("are in the bill, and in no row's usage", async () => {
    const run = await plannedRun(rowsOf(3));
    const slow = await openAttempt(run);
    answer(slow, 0);
    await slow.flush();
    await run.clock.run(sleep(run.clock, 5));
    // Takes row 0 over, and answers the others at the same time as the first one.
    const quick = await openAttempt(run);
    answer(quick, 1, 2);
    const late = {
      promptTokens: 70,
      tokens: [30],
      seconds: 0.5,
      finishReason: "stop",
      attempts: 1,
    };
    slow.settleAnswered(1, [late], '"late"');
    slow.settleAnswered(2, [{ ...late, reused: true }], '"late"');
    await slow.close();
    await quick.commit();
    await run.storage.replace(planPath, recordBytes(run.plan));
    const options = { engine: null, assertLeads: async () => {} };
    const { bill, usage } = await sealRun(run.context, options);
    expect(usage.promptTokens).toBe(21);
    expect(bill).toMatchObject({
      promptTokens: 91,
      completionTokens: 39,
      paidTwice: { lost: { answers: 1, promptTokens: 70, completionTokens: 30 } },
    });
  });
});
