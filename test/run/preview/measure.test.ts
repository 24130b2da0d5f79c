import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { sampleRequests } from "../../../src/run/preview/estimate.ts";
import { measureRows, paceOf, rowsToMeasure } from "../../../src/run/preview/measure.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, type ScriptedEngine, scriptedEngine } from "../scripted-engine.ts";

async function measuring(rows: readonly string[], changes: Partial<JobInput> = {}) {
  const { context, clock } = await plannedRun(rows, changes);
  const sampled = await sampleRequests(context);
  const promptSet = promptSetOf(context.plan.job, 5);
  const signal = new AbortController().signal;
  const options = { promptSet, clock, random: seededRandom(1), maxTries: 3, signal };
  return {
    clock,
    sampled,
    measure: (engine: ScriptedEngine) => clock.run(measureRows(engine, sampled, options)),
  };
}

describe("rowsToMeasure", () => {
  it("are spread over the sample: as many as asked, or twice what the engine holds", async () => {
    const { sampled } = await measuring(rowsOf(200), { shard: { rows: 50 } });
    const indexes = (capacity: number, asked?: number) =>
      rowsToMeasure(sampled, capacity, asked).map(({ index }) => index);
    expect(indexes(1, 4)).toEqual([0, 50, 100, 150]);
    expect(indexes(1)).toHaveLength(20);
    expect(indexes(30)).toHaveLength(60);
    expect(indexes(500)).toHaveLength(100);
    expect(indexes(1, 1000)).toHaveLength(200);
  });
});

describe("measureRows", () => {
  it("asks as many at once as the engine holds, and keeps what each row cost", async () => {
    const run = await measuring([...rowsOf(10), '{"other":1}']);
    const engine = scriptedEngine(4, (request) => {
      run.clock.schedule(1000, () => engine.held.find((it) => it.request === request)?.answer());
      return undefined;
    });
    const found = await run.measure(engine);
    expect(engine.most).toBe(4);
    expect(found.seconds).toBe(3);
    expect(found.together).toBeCloseTo(10 / 3, 6);
    expect(found.costs).toHaveLength(11);
    expect(found.costs[0]).toEqual({
      task: 0,
      characters: "Say row 0".length,
      usage: { promptTokens: 7, cachedTokens: 0, completionTokens: 3 },
      seconds: 1,
    });
    // The broken row costs nothing, which is what it will cost in the run.
    expect(found.costs.filter(({ seconds }) => seconds === 0)).toHaveLength(1);
  });

  it("asks more at once as the engine comes to hold more", async () => {
    const run = await measuring(rowsOf(12));
    const engine = scriptedEngine(2, (request) => {
      run.clock.schedule(1000, () => {
        Object.assign(engine, { capacity: 5 });
        engine.held.find((it) => it.request === request)?.answer();
      });
      return undefined;
    });
    expect((await run.measure(engine)).costs).toHaveLength(12);
    expect(engine.most).toBe(5);
  });

  it("asks again what is wrong or failed, and counts that", async () => {
    const slots = { word: { copyFrom: "text", maxWords: 2 } };
    const prompt = { prompt: "{{ text }}", answer: { line: "word={word}", slots } };
    const run = await measuring(rowsOf(3), { prompt });
    const engine = scriptedEngine(1, ({ index }, before) => {
      if (index === 2) return new SluiceError("REQUEST_REFUSED");
      if (index === 0 && before === 0) return new SluiceError("SERVER_ERROR");
      return responseOf(index === 1 ? "no line" : "word=row 0");
    });
    const { costs } = await run.measure(engine);
    expect(engine.asked).toEqual([0, 0, 1, 1, 1, 2]);
    expect(costs.map(({ usage }) => usage.promptTokens)).toEqual([7, 21, 0]);
  });

  it("asks a conversation turn by turn", async () => {
    const prompts = { first: "One {{ text }}", second: "Two {{ text }}" };
    const run = await measuring(rowsOf(1), { prompt: undefined, prompts });
    const { costs } = await run.measure(scriptedEngine(2, () => responseOf("yes")));
    expect(costs[0]!.usage.promptTokens).toBe(14);
  });

  it("ends with what would end the run, and asks nothing more", async () => {
    const run = await measuring(rowsOf(9));
    const engine = scriptedEngine(2, ({ index }) =>
      index === 1 ? new SluiceError("AUTHENTICATION_FAILED") : undefined,
    );
    await expect(run.measure(engine)).rejects.toMatchObject({ code: "AUTHENTICATION_FAILED" });
    expect(engine.asked).toEqual([0, 1]);
  });
});

describe("paceOf", () => {
  const costs = Array.from({ length: 6 }, () => ({
    task: 0,
    usage: { promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
    seconds: 1,
  }));

  it("is that of the requests measured at once; more where all workers hold more", () => {
    const { together } = paceOf({ costs, together: 5, seconds: 1.2 }, 3, 64, 2);
    expect(together).toEqual({ estimated: 12, low: 5, high: 128 });
    expect(paceOf({ costs, together: 3, seconds: 2 }, 3, 4, 1)).toEqual({
      startSeconds: 3,
      together: { estimated: 4, low: 3, high: 4 },
    });
  });

  it("of an engine that takes no time has no bounds to divide by nothing", () => {
    const { together } = paceOf({ costs, together: 0, seconds: 0 }, 0, 4, 1);
    expect(together.low).toBe(4);
  });
});
