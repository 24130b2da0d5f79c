import { describe, expect, it, type MockInstance, vi } from "vitest";
import { type Batched, type BatchModel, batched } from "../../../src/engines/batching/batched.ts";
import type { BatchCost } from "../../../src/engines/batching/next-batch.ts";
import { WaitingQueue } from "../../../src/engines/batching/waiting-queue.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";

const { signal } = new AbortController();

/** A model that notes its batches and computes each for `ms`. */
function recorded(
  clock: ReturnType<typeof virtualClock>,
  compute: (batch: readonly number[]) => readonly (string | Error)[] = answers,
  ms: (rows: number) => number = () => 10,
) {
  const batches: number[][] = [];
  const model: BatchModel<number, string> = {
    async run(batch, aborted) {
      batches.push([...batch]);
      await sleep(clock, ms(batch.length), aborted);
      return compute(batch);
    },
  };
  return { batches, model };
}

const answers = (batch: readonly number[]) => batch.map(String);

function over(
  clock: ReturnType<typeof virtualClock>,
  models: readonly BatchModel<number, string>[],
  limits: Partial<Parameters<typeof batched>[1]> = {},
) {
  const all = { maxBatchRows: 4, ...limits };
  return batched(models, all, { clock, logger: silentLogger });
}

/** What became of items that are all asked at once. */
async function outcomes(
  engine: Batched<number, string>,
  items: readonly number[],
  cost: (item: number) => BatchCost = () => ({}),
): Promise<string[]> {
  const asked = items.map((item) => engine.infer(item, cost(item), signal));
  const settled = await Promise.allSettled(asked);
  return settled.map((each) =>
    each.status === "fulfilled" ? each.value : (each.reason.code ?? each.reason.message),
  );
}

/** How many waiting items were looked at. */
function lookedAt(looks: MockInstance<(most: number) => unknown[]>): number {
  const counts = looks.mock.results.map(({ value }) => value.length);
  looks.mockRestore();
  return counts.reduce((sum, count) => sum + count, 0);
}

const range = (count: number) => Array.from({ length: count }, (_, at) => at);

describe("batched", () => {
  it("fills batches with what waits, and sends the last one however small", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    expect(await clock.run(outcomes(over(clock, [model]), range(6)))).toEqual(answers(range(6)));
    expect(batches).toEqual([
      [0, 1, 2, 3],
      [4, 5],
    ]);
    expect(clock.monotonic()).toBe(20);
  });

  it("looks at the rows of a batch, not at all that wait", async () => {
    const model = { run: async (batch: readonly number[]) => answers(batch) };
    const engine = over(virtualClock(), [model], { maxBatchRows: 1 });
    const looks = vi.spyOn(WaitingQueue.prototype, "front");
    expect(await outcomes(engine, range(100))).toEqual(answers(range(100)));
    expect(lookedAt(looks)).toBe(100);
  });

  it("starts at once, and what comes meanwhile is the next batch", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const engine = over(clock, [model]);
    const asked = [engine.infer(0, {}, signal)];
    for (const item of [1, 2, 3]) {
      clock.schedule(item * 2, () => void asked.push(engine.infer(item, {}, signal)));
    }
    await clock.run(sleep(clock, 30).then(() => Promise.all(asked)));
    expect(batches).toEqual([[0], [1, 2, 3]]);
  });

  it("uses every replica, each for one batch at a time", async () => {
    const clock = virtualClock();
    const [one, two] = [recorded(clock), recorded(clock)];
    const engine = over(clock, [one.model, two.model]);
    await clock.run(outcomes(engine, range(16)));
    expect(one.batches.length).toBe(2);
    expect(two.batches.length).toBe(2);
    expect(clock.monotonic()).toBe(20);
    expect(engine.capacity).toBe(16);
  });

  it("waits for a delay that was asked for, and no longer once the batch is full", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const engine = over(clock, [model], { maxBatchDelayMs: 50 });
    const asked = [engine.infer(0, {}, signal)];
    clock.schedule(20, () => void asked.push(engine.infer(1, {}, signal)));
    await clock.run(sleep(clock, 61).then(() => Promise.all(asked)));
    expect(batches).toEqual([[0, 1]]);
    const startMs = clock.monotonic();
    await clock.run(outcomes(engine, range(4)));
    expect(clock.monotonic() - startMs).toBe(10);
  });

  it("waits for full batches where it is to, until it hears that nothing more comes", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const engine = over(clock, [model], { fillsBatches: true });
    const asked = range(6).map((item) => engine.infer(item, {}, signal));
    await clock.run(asked[3]!);
    expect(batches).toEqual([[0, 1, 2, 3]]);
    expect(engine.waiting).toBe(2);
    engine.flush();
    // It came after: what was flushed waits for it no longer.
    const later = engine.infer(6, {}, signal);
    await clock.run(Promise.all(asked));
    expect(batches[1]!.slice(0, 2)).toEqual([4, 5]);
    engine.flush();
    await clock.run(later);
    expect(engine.waiting).toBe(0);
  });

  it("still knows what was flushed after a batch did not fit into memory", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock, (batch) => {
      if (batch.length > 2) throw new Error("CUDA out of memory");
      return answers(batch);
    });
    const engine = over(clock, [model], { maxBatchRows: 8, fillsBatches: true });
    const asked = range(5).map((item) => engine.infer(item, {}, signal));
    engine.flush();
    await clock.run(Promise.all(asked));
    expect(batches).toEqual([[0, 1, 2, 3, 4], [0, 1], [2, 3], [4]]);
  });

  it("puts requests of one length together where it looks ahead", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const engine = over(clock, [model], { maxBatchTokens: 1000, lookAheadBatches: 4 });
    const tokens = (item: number) => ({ tokens: item % 2 === 0 ? 10 : 200 });
    await clock.run(outcomes(engine, range(8), tokens));
    expect(batches).toEqual([
      [0, 2, 4, 6],
      [1, 3, 5, 7],
    ]);
  });
});

describe("a batch that fails", () => {
  it("is halved until the guilty item is alone", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock, (batch) => {
      if (batch.includes(5)) throw new Error("five is not a number");
      return answers(batch);
    });
    const found = await clock.run(outcomes(over(clock, [model], { maxBatchRows: 8 }), range(16)));
    expect(found).toEqual(
      range(16).map((item) => (item === 5 ? "five is not a number" : String(item))),
    );
    // Its halves go before what waits.
    expect(batches.slice(0, 3)).toEqual([
      [0, 1, 2, 3, 4, 5, 6, 7],
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(batches.at(-1)).toEqual(range(16).slice(8));
    expect(batches.length).toBe(8);
  });

  it("gives an item its own error, and the others their results", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock, (batch) =>
      batch.map((item) => (item === 1 ? new Error("no") : String(item))),
    );
    expect(await clock.run(outcomes(over(clock, [model]), range(3)))).toEqual(["0", "no", "2"]);
    expect(batches.length).toBe(1);
  });

  it.each([
    [
      "too few",
      (batch: readonly number[]) => answers(batch).slice(1),
      "3 results for a batch of 4 rows: [ '1', '2', '3' ]",
    ],
    [
      "too many",
      (batch: readonly number[]) => [...answers(batch), "x"],
      "5 results for a batch of 4 rows",
    ],
    ["no list", () => "x" as never, "no list for a batch of 4 rows: 'x'"],
  ])("with %s results fails as a whole, and shows them", async (_, wrong, message) => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock, wrong);
    const engine = over(clock, [model]);
    const asked = range(4).map((item) => engine.infer(item, {}, signal));
    const found = await clock.run(Promise.allSettled(asked));
    const reason = { code: "RESULTS_MISCOUNTED", message: expect.stringContaining(message) };
    expect(found).toMatchObject(Array(4).fill({ reason }));
    expect(batches.length).toBe(1);
  });

  it("by the engine's death is every item's error at once", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock, () => {
      throw new SluiceError("ENGINE_DIED", "exit code 1");
    });
    const found = await clock.run(outcomes(over(clock, [model]), range(4)));
    expect(found).toEqual(Array(4).fill("ENGINE_DIED"));
    expect(batches.length).toBe(1);
  });
});

describe("out of memory", () => {
  const holding = (most: number) => (batch: readonly number[]) => {
    if (batch.length > most) throw new RangeError("Array buffer allocation failed");
    return answers(batch);
  };

  it("halves the batch, goes on, and remembers the size that worked", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock, holding(3));
    const engine = over(clock, [model], { maxBatchRows: 16 });
    expect(await clock.run(outcomes(engine, range(40)))).toEqual(answers(range(40)));
    // Each size that does not fit is tried once.
    expect(batches.slice(0, 4).map(({ length }) => length)).toEqual([16, 8, 4, 2]);
    expect(engine.bounds.maxRows).toBe(2);
    expect(batches.slice(4).every(({ length }) => length === 2)).toBe(true);
  });

  it("comes down to one row whatever limits the batch", async () => {
    for (const limits of [{}, { maxBatchChars: 9 }, { maxBatchTokens: 100 }]) {
      const clock = virtualClock();
      const { model } = recorded(clock, holding(1));
      const engine = over(clock, [model], { maxBatchRows: 8, ...limits });
      const cost = (item: number) => ({ chars: item % 2, tokens: 1 + (item % 3) });
      const found = await clock.run(outcomes(engine, range(12), cost));
      expect(found, JSON.stringify(limits)).toEqual(answers(range(12)));
    }
  });

  it("halves the batch as well where only some of its items say so", async () => {
    const clock = virtualClock();
    const { model } = recorded(clock, (batch) =>
      batch.map((item, at) => (at < 2 ? String(item) : new Error("CUDA out of memory"))),
    );
    const engine = over(clock, [model], { maxBatchRows: 8 });
    expect(await clock.run(outcomes(engine, range(16)))).toEqual(answers(range(16)));
    expect(engine.bounds.maxRows).toBe(2);
  });

  it("that ends the process makes later batches smaller, unless it held them before", async () => {
    const clock = virtualClock();
    let [most, left] = [3, 0];
    const { model } = recorded(clock, (batch) => {
      if (batch.length > most || left-- === 0) {
        throw new SluiceError("ENGINE_DIED", "signal SIGABRT; it wrote: heap out of memory");
      }
      return answers(batch);
    });
    const engine = over(clock, [model], { maxBatchRows: 8 });
    left = 100;
    expect(await clock.run(outcomes(engine, range(8)))).toEqual(Array(8).fill("ENGINE_DIED"));
    expect(engine.bounds.maxRows).toBe(4);
    // It computes four, and leaks until four are too many.
    [most, left] = [4, 2];
    await clock.run(outcomes(engine, range(12)));
    expect(engine.bounds.maxRows).toBe(4);
    // A batch of one row between does not count against it.
    [most, left] = [4, 100];
    await clock.run(outcomes(engine, range(4)));
    await clock.run(outcomes(engine, range(1)));
    left = 0;
    await clock.run(outcomes(engine, range(3)));
    expect(engine.bounds.maxRows).toBe(4);
  });

  it("of a row that does not fit alone leaves later batches as large as before", async () => {
    for (const limits of [{}, { maxBatchChars: 1600 }, { maxBatchTokens: 1600 }]) {
      const clock = virtualClock();
      const { batches, model } = recorded(clock, (batch) => {
        if (batch.includes(20)) throw new Error("CUDA out of memory");
        return answers(batch);
      });
      const engine = over(clock, [model], { maxBatchRows: 16, ...limits });
      const before = { ...engine.bounds };
      const found = await clock.run(outcomes(engine, range(200), () => ({ chars: 9, tokens: 9 })));
      expect(found.filter((each) => each === "OUT_OF_MEMORY").length).toBe(1);
      expect(engine.bounds, JSON.stringify(limits)).toEqual(before);
      expect(batches.filter(({ length }) => length === 16).length).toBeGreaterThan(8);
    }
  });

  it("of such a row among batches that are too large says nothing of those", async () => {
    const clock = virtualClock();
    const { model } = recorded(clock, (batch) => {
      if (batch.length > 5 || batch.includes(20)) throw new Error("CUDA out of memory");
      return answers(batch);
    });
    const engine = over(clock, [model], { maxBatchRows: 16 });
    await clock.run(outcomes(engine, range(64)));
    expect(engine.bounds.maxRows).toBe(4);
  });

  it("that ends the process by one row alone leaves later batches as large as before", async () => {
    const clock = virtualClock();
    const { model } = recorded(clock, (batch) => {
      if (batch.includes(2)) {
        throw new SluiceError("ENGINE_DIED", "signal SIGABRT; it wrote: heap out of memory");
      }
      return answers(batch);
    });
    const engine = over(clock, [model], { maxBatchRows: 8 });
    await clock.run(outcomes(engine, range(8)));
    expect(engine.bounds.maxRows).toBe(4);
    expect(await clock.run(outcomes(engine, [2]))).toEqual(["ENGINE_DIED"]);
    expect(engine.bounds.maxRows).toBe(8);
  });

  it("of one row is that row's error, which says what to do", async () => {
    const clock = virtualClock();
    const { model } = recorded(clock, (batch) => {
      if (batch.includes(2)) throw new Error("CUDA out of memory");
      return answers(batch);
    });
    const engine = over(clock, [model]);
    expect(await clock.run(outcomes(engine, range(4)))).toEqual(["0", "1", "OUT_OF_MEMORY", "3"]);
    const error = await clock.run(engine.infer(2, {}, signal).catch((thrown) => thrown));
    expect(error.message).toContain("CUDA out of memory");
    expect(error.hint).toBe("take a smaller model, give it more memory, or split it over devices");
  });
});

it("finds its number of rows by rows a second", async () => {
  const clock = virtualClock();
  const { model } = recorded(clock, answers, (rows) => Math.max(80, rows * 10));
  const engine = over(clock, [model], { maxBatchRows: "auto" });
  await clock.run(outcomes(engine, range(200)));
  expect(engine.bounds.maxRows).toBe(8);
});

describe("a caller that does not wait any more", () => {
  it("leaves the queue", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const engine = over(clock, [model], { maxBatchRows: 1 });
    const leaving = new AbortController();
    const asked = [engine.infer(0, {}, signal), engine.infer(2, {}, signal)];
    const left = engine.infer(1, {}, leaving.signal);
    clock.schedule(5, () => leaving.abort(new Error("left")));
    await clock.run(Promise.all([...asked, expect(left).rejects.toThrow("left")]));
    expect(batches).toEqual([[0], [2]]);
  });

  it("leaves a long queue from wherever it stands, and is not searched for", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const engine = over(clock, [model], { maxBatchRows: 1 });
    const leaving = range(100).map(() => new AbortController());
    const looks = vi.spyOn(WaitingQueue.prototype, "front");
    const asked = leaving.map((each, item) => engine.infer(item, {}, each.signal));
    const settled = Promise.allSettled(asked);
    for (const each of leaving.slice(1).reverse()) each.abort();
    await clock.run(settled);
    expect(batches).toEqual([[0]]);
    expect(engine.waiting).toBe(0);
    expect(lookedAt(looks)).toBe(1);
  });

  it("aborts a batch only when nobody else waits for it", async () => {
    const clock = virtualClock();
    const aborted: string[] = [];
    const model: BatchModel<number, string> = {
      async run(batch, whole) {
        whole.addEventListener("abort", () => aborted.push(batch.join()));
        await sleep(clock, 10, whole);
        return answers(batch);
      },
    };
    const engine = over(clock, [model], { maxBatchRows: 2 });
    const [early, late] = [new AbortController(), new AbortController()];
    const kept = engine.infer(0, {}, signal);
    const left = [early, late, late].map((leaving, at) =>
      engine.infer(at + 1, {}, leaving.signal).catch(() => "left"),
    );
    clock.schedule(5, () => early.abort());
    clock.schedule(15, () => late.abort());
    expect(await clock.run(Promise.all([kept, ...left]))).toEqual(["0", "left", "left", "left"]);
    expect(aborted).toEqual(["2,3"]);
  });

  it("is told at once when it never waited", async () => {
    const clock = virtualClock();
    const { batches, model } = recorded(clock);
    const gone = AbortSignal.abort(new Error("gone"));
    await expect(over(clock, [model]).infer(1, {}, gone)).rejects.toThrow("gone");
    expect(batches).toEqual([]);
  });
});

it("rejects all that it holds when it is closed", async () => {
  const clock = virtualClock();
  const { model } = recorded(clock);
  const engine = over(clock, [model], { maxBatchRows: 1 });
  const asked = outcomes(engine, [0, 1, 2]);
  clock.schedule(15, () => void engine.close());
  expect(await clock.run(asked)).toEqual(["0", "ENGINE_DIED", "ENGINE_DIED"]);
  await expect(engine.infer(3, {}, signal)).rejects.toThrow("it was closed");
});
