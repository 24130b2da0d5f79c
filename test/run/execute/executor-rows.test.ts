import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { responseOf, type ScriptedEngine, scriptedEngine } from "../scripted-engine.ts";
import { execution } from "./execution.ts";

const job: Partial<JobInput> = {
  model: { engine: "pipeline", stages: [] },
  prompt: undefined,
};
/** Three rows have a common request. */
const together = {
  model: {
    engine: "pipeline",
    stages: [{ kind: "mapBatches", module: "/m.mjs", rows: "any", batchRows: 3 }],
  } as unknown as JobInput["model"],
  prompt: undefined,
};
const lines = Array.from({ length: 9 }, (_, id) => JSON.stringify({ id }));

/** Each row becomes as many rows as its index leaves by three. */
const becoming = (index: number): JsonObject[] => Array(index % 3).fill({ from: index });

const pipeline = (capacity: number) =>
  scriptedEngine(capacity, ({ index }) => ({ ...responseOf(""), rows: becoming(index) }));

describe("rows that become rows", () => {
  it("are written one after another in the place of the row, and counted", async () => {
    const { add, end, results, run } = await execution(lines, pipeline(4), { job });
    await add(0);
    await end();
    expect(await results(0)).toEqual(lines.flatMap((_, index) => becoming(index)));
    const [commit] = await run.lines("_sluice/commits/0.20260101t000000z.json");
    const rows = { total: 9, answered: 6, filtered: 3, failed: 0, results: 9 };
    expect(commit).toMatchObject({ rows, requests: { planned: 9, answered: 9 } });
    const { path } = commit!.lineCounts as { path: string };
    expect(JSON.parse(await run.text(path))).toEqual([
      ...[0, 3, 6].flatMap((row) => [
        [row, 0],
        [row + 2, 2],
      ]),
    ]);
  });

  it("have their tokens counted where a stage fails behind one that was paid for", async () => {
    const paid = { promptTokens: 7, cachedTokens: 0, completionTokens: 2 };
    const engine = scriptedEngine(4, ({ index }) => {
      const error = new SluiceError("STAGE_FAILED", `row ${index}`);
      error.paid = paid;
      return index === 1 ? error : { ...responseOf(""), rows: [] };
    });
    const { add, end, run } = await execution(lines.slice(0, 3), engine, { job });
    await add(0);
    await end();
    const [commit] = await run.lines("_sluice/commits/0.20260101t000000z.json");
    expect(commit).toMatchObject({ rows: { filtered: 2, failed: 1 } });
    expect(commit!.usage).toMatchObject({ promptTokens: 21, completionTokens: 8 });
  });

  it("wait until their common request is sent, and no longer", async () => {
    const engine = scriptedEngine(1);
    const { add, executor } = await execution(lines, engine, { job: together });
    await add(0);
    expect(engine.held).toHaveLength(1);
    expect(executor.waitingOf()).toBe(6);
  });

  it("have a common request that may fail for some of them, told without secrets", async () => {
    const failures = new Map([[1, new Error("row of s3cret")]]);
    const engine = scriptedEngine(4, () => ({ ...responseOf(""), rows: [{ of: 2 }], failures }));
    const { add, end, letters, results } = await execution(lines.slice(0, 3), engine, {
      job: together,
    });
    await add(0);
    await end();
    expect(await results(0)).toEqual([{ of: 2 }]);
    expect(await letters(0)).toMatchObject([
      { index: 1, message: expect.stringContaining("row of [redacted]") },
    ]);
  });

  it("end the run by the first of them that fails, where onRowError is fail", async () => {
    const failures = new Map([[1, new Error("broken")]]);
    const engine = scriptedEngine(4, () => ({ ...responseOf(""), rows: [{ of: 2 }], failures }));
    const changes = { job: together, failOnRowError: true };
    const execute = await execution(lines.slice(0, 3), engine, changes);
    await execute.add(0);
    await execute.end();
    expect(execute.completed).toEqual([]);
    expect(execute.failures).toMatchObject([
      { task: 0, error: { code: "ROW_FAILED", message: expect.stringContaining("broken") } },
    ]);
  });

  it("are taken over from an earlier attempt, filtered ones too", async () => {
    const engine = scriptedEngine(9, ({ index }) =>
      index < 5 ? { ...responseOf(""), rows: becoming(index) } : undefined,
    );
    const first = await execution(lines, engine, { job });
    const attempt = await first.add(0);
    await attempt.close();
    const again = pipeline(9);
    const second = await execution(lines, again, { job, run: first.run });
    const { resumed } = await second.add(0);
    await second.end();
    expect(resumed).toBe(5);
    expect(again.asked).toEqual([5, 6, 7, 8]);
    expect(await second.results(0)).toEqual(lines.flatMap((_, index) => becoming(index)));
    const [commit] = await second.run.lines("_sluice/commits/0.20260101t000000z.json");
    expect(commit!.rows).toMatchObject({ answered: 6, filtered: 3, results: 9 });
  });
});

describe("an engine that waits for full batches", () => {
  /** Holds rows until there are `rows` of them, or it is flushed. */
  function filling(rows: number, capacity: number): ScriptedEngine & { batches: number[][] } {
    const engine = scriptedEngine(capacity);
    const batches: number[][] = [];
    const { infer } = engine;
    const answer = () => {
      batches.push(engine.held.map(({ request }) => request.index));
      engine.answerAll();
    };
    return Object.assign(engine, {
      batches,
      infer: (...asked: Parameters<typeof infer>) => {
        const answered = infer(...asked);
        if (engine.held.length === rows) answer();
        return answered;
      },
      flush: () => {
        if (engine.held.length > 0) answer();
      },
    });
  }

  it("is told when nothing more is asked, and not before", async () => {
    const texts = Array.from({ length: 11 }, (_, id) => JSON.stringify({ text: `row ${id}` }));
    const engine = filling(4, 8);
    const { add, end } = await execution(texts, engine);
    await add(0);
    await end();
    expect(engine.batches).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
      [8, 9, 10],
    ]);
  });

  it("is told when rows are asked with care, which are fewer than a batch", async () => {
    const texts = Array.from({ length: 6 }, (_, id) => JSON.stringify({ text: `row ${id}` }));
    const engine = filling(4, 8);
    const { add, end, completed } = await execution(texts, engine);
    await add(0, 3);
    await end();
    expect(completed).toEqual([0]);
    expect(engine.batches.flat().sort()).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("is told when the worker stops", async () => {
    const engine = filling(4, 4);
    const { add, executor } = await execution(
      Array.from({ length: 6 }, (_, id) => JSON.stringify({ text: `row ${id}` })),
      Object.assign(engine, { capacity: 2 }),
    );
    await add(0);
    await executor.stop();
    expect(engine.held).toEqual([]);
  });
});
