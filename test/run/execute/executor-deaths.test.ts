import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { changedStorage, plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine, settled } from "../scripted-engine.ts";
import { execution } from "./execution.ts";

const perTask = (rows: number) => ({ shard: { rows } });
const answered = (index: number) => responseOf(`answer ${index}`);

describe("an engine that dies", () => {
  /** An engine that is gone with all it holds whenever one of these rows is asked. */
  function fragileEngine(capacity: number, ...killers: number[]) {
    const engine = scriptedEngine(capacity);
    const inner = engine.infer;
    engine.infer = (request, signal) => {
      const response = inner(request, signal);
      setImmediate(() => {
        const held = [...engine.held];
        const isFatal = held.some((it) => killers.includes(it.request.index));
        for (const it of held) isFatal ? it.fail(new SluiceError("ENGINE_DIED")) : it.answer();
      });
      return response;
    };
    return engine;
  }

  it.each([
    [1, [2]],
    [4, [0]],
    [4, [3]],
    [4, [1, 2]],
    [8, [0, 7]],
  ])("with %i in flight gives up rows %j alone", async (capacity, killers) => {
    const engine = fragileEngine(capacity, ...killers);
    const { add, end, letters, results } = await execution(rowsOf(10), engine);
    await add(0);
    await end();
    expect((await letters(0)).map(({ index, code }) => [index, code])).toEqual(
      killers.map((row) => [row, "ROW_KILLS_ENGINE"]),
    );
    expect((await results(0)).map(({ id }) => id)).toEqual(
      rowsOf(10).flatMap((_, row) => (killers.includes(row) ? [] : [row])),
    );
    for (const row of killers) {
      expect(engine.asked.filter((it) => it === row).length).toBeGreaterThanOrEqual(
        limits.maxRowKills,
      );
    }
  });

  it("costs its rows no try", async () => {
    const outcomes = ["ENGINE_DIED", "ENGINE_DIED", "SERVER_ERROR"] as const;
    const engine = scriptedEngine(1, ({ index }, before) => {
      const code = outcomes[before];
      return code ? new SluiceError(code) : answered(index);
    });
    const { add, end, results } = await execution(rowsOf(1), engine, { maxTries: 2 });
    await add(0);
    await end();
    expect(await results(0)).toMatchObject([{ answer: "answer 0" }]);
  });

  it("is searched through in all tasks whose rows it held", async () => {
    const engine = fragileEngine(4, 2);
    const { add, end, completed, letters } = await execution(rowsOf(6), engine, {
      job: perTask(2),
    });
    await Promise.all([add(0), add(1), add(2)]);
    await end();
    expect(completed.toSorted()).toEqual([0, 1, 2]);
    expect(await letters(1)).toMatchObject([{ index: 2, code: "ROW_KILLS_ENGINE" }]);
  });

  it("goes on with the other tasks where the journal of one fails meanwhile", async () => {
    const engine = fragileEngine(4, 3);
    const run = await plannedRun(rowsOf(4), perTask(2));
    let isBroken = false;
    run.context.storage = changedStorage(run.storage, (inner) => ({
      async appender(path) {
        const appender = await inner.appender(path);
        if (!path.includes("/g1/0/")) return appender;
        const append = (data: Uint8Array) =>
          isBroken ? Promise.reject(new SluiceError("STORE_FAILED")) : appender.append(data);
        return { ...appender, append };
      },
    }));
    const { add, end, failures, completed } = await execution([], engine, { run });
    isBroken = true;
    await Promise.all([add(0), add(1)]);
    await end();
    expect(failures).toMatchObject([{ task: 0, error: { code: "STORE_FAILED" } }]);
    expect(completed).toEqual([1]);
  });
});

describe("rows that a worker died with", () => {
  it("are asked in small groups with nothing beside them, the rest as ever", async () => {
    const engine = scriptedEngine(8);
    const { add, end } = await execution(rowsOf(12), engine);
    const together: number[][] = [];
    await add(0, 4);
    while (engine.held.length > 0) {
      together.push(engine.held.map(({ request }) => request.index));
      engine.answerAll();
      await settled();
    }
    await end();
    expect(together).toEqual([
      [0, 1],
      [2, 3],
      [4, 5, 6, 7, 8, 9, 10, 11],
    ]);
  });

  it("are on file before they are asked", async () => {
    const engine = scriptedEngine(2);
    const { add, run } = await execution(rowsOf(3), engine);
    const attempt = await add(0, 2);
    expect(engine.asked).toEqual([0]);
    const [journal] = await run.paths("_sluice/attempts/");
    expect(journal).toContain(attempt.id);
    expect(await run.lines(journal!)).toEqual([{ index: 0, outcome: "asked", together: 1 }]);
  });

  it("are passed over where they are broken", async () => {
    const engine = scriptedEngine(4, ({ index }) => answered(index));
    const rows = ["{broken", ...rowsOf(1), "{broken too"];
    const { add, end, results, letters } = await execution(rows, engine);
    await add(0, 3);
    await end();
    expect(await results(0)).toHaveLength(1);
    expect(await letters(0)).toHaveLength(2);
  });
});
