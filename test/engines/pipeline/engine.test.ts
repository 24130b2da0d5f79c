import { afterEach, describe, expect, it } from "vitest";
import type { Engine, EngineContext, RowModel } from "../../../src/engines/engine.ts";
import { defaultStageChars } from "../../../src/engines/pipeline/batched-stage.ts";
import { openPipeline } from "../../../src/engines/pipeline/engine.ts";
import { entryCommand } from "../../../src/entry.ts";
import { sleep, systemClock } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { chatRequest, engineContext, rejectionOf } from "../engine-context.ts";
import { moduleFolder } from "../predictor/module-folder.ts";
import { Program, pipelineOptions } from "./stage-options.ts";

const moduleFile = moduleFolder();

type Row = JsonObject & { id: number };

const { signal } = new AbortController();
const opened: Engine[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()));
});

async function open(program: Program, changes: Partial<EngineContext> = {}): Promise<Engine> {
  const { functions } = program;
  const engine = await openPipeline(program.options(), engineContext({ functions, ...changes }));
  opened.push(engine);
  return engine;
}

async function openModules(stages: object[]): Promise<Engine> {
  const engine = await openPipeline(
    pipelineOptions(stages),
    engineContext({
      random: { next: () => 0 },
      environment: process.env,
      hostCommand: entryCommand("engines/host/main", process.execPath),
    }),
  );
  opened.push(engine);
  return engine;
}

function request(index: number, row: JsonObject = { id: index }): InferenceRequest {
  const { messages: _, ...rest } = chatRequest(index);
  return { ...rest, row };
}

/** What each of so many rows became, or the code of its error; flushed once all are asked. */
async function outcomes(engine: Engine, count: number): Promise<unknown[]> {
  const asked = Array.from({ length: count }, (_, at) => engine.infer(request(at), signal));
  engine.flush?.();
  const settled = await Promise.allSettled(asked);
  return settled.map((each) => (each.status === "fulfilled" ? each.value.rows : each.reason.code));
}

describe("openPipeline", () => {
  it("makes one row, several or none of each, in order", async () => {
    const program = new Program()
      .stage("map", ({ id }: Row) => ({ id, n: id % 3 }))
      .stage("filter", ({ n }: { n: number }) => n > 0)
      .stage("flatMap", ({ id, n }: Row & { n: number }) => Array(n).fill({ id }))
      .stage("map", ({ id }: Row) => -id, { column: "minus" });
    const rows = await outcomes(await open(program), 6);
    expect(rows).toEqual([
      [],
      [{ id: 1, minus: -1 }],
      [
        { id: 2, minus: -2 },
        { id: 2, minus: -2 },
      ],
      [],
      [{ id: 4, minus: -4 }],
      [
        { id: 5, minus: -5 },
        { id: 5, minus: -5 },
      ],
    ]);
  });

  it("hands over exactly batchSize rows until nothing more comes, at each stage", async () => {
    const sizes: number[][] = [[], []];
    const noting = (at: number) => (batch: Row[]) => {
      sizes[at]!.push(batch.length);
      return batch;
    };
    const program = new Program()
      .stage("mapBatches", noting(0), { batchSize: 8 })
      .stage("filter", ({ id }: Row) => id % 4 !== 0)
      .stage("mapBatches", noting(1), { batchSize: 5 });
    const engine = await open(program);
    const rows = (await outcomes(engine, 42)).flat() as Row[];
    expect(sizes[0]).toEqual([8, 8, 8, 8, 8, 2]);
    expect(sizes[1]).toEqual([5, 5, 5, 5, 5, 5, 1]);
    expect(rows.map(({ id }) => id)).toEqual(
      Array.from({ length: 42 }, (_, id) => id).filter((id) => id % 4 !== 0),
    );
  });

  it("gets on without a flush while more rows come than its stages hold back", async () => {
    const program = new Program()
      .stage("mapBatches", (batch: Row[]) => batch, { batchSize: 7 })
      .stage("mapBatches", (batch: Row[]) => batch, { batchSize: 11 });
    const engine = await open(program);
    let [asked, done] = [0, 0];
    const ask = async (): Promise<void> => {
      if (asked >= 400) return;
      await engine.infer(request(asked++), signal);
      done++;
      if (asked >= 400) engine.flush?.();
      return ask();
    };
    await Promise.all(Array.from({ length: engine.capacity }, ask));
    expect(done).toBe(400);
  });

  it("fails the row alone that its code throws for, and names stage and line", async () => {
    const program = new Program()
      .stage("mapBatches", function checked(batch: Row[]) {
        if (batch.some(({ id }) => id === 3)) throw new Error("three");
        return batch.map((row) => (row.id === 5 ? new TypeError("five") : row));
      })
      .stage("map", ({ id }: Row) => (id === 6 ? "no row" : { id }));
    const engine = await open(program);
    const found = await outcomes(engine, 8);
    const failed = found.flatMap((each, at) => (each === "STAGE_FAILED" ? at : []));
    expect(failed).toEqual([3, 5, 6]);
    expect(found[7]).toEqual([{ id: 7 }]);
    const error = await rejectionOf(engine.infer(request(6), signal));
    expect(error?.message).toMatch(/stage 2 map: it gives a value of type string where a row/);
  });

  it("refuses a batch whose results are not one for each row, and halves nothing", async () => {
    const sizes: number[] = [];
    const program = new Program().stage("mapBatches", (batch: Row[]) => {
      sizes.push(batch.length);
      return batch.some(({ id }) => id === 2) ? batch.slice(1) : batch;
    });
    expect(await outcomes(await open(program), 4)).toEqual(Array(4).fill("RESULTS_MISCOUNTED"));
    expect(sizes).toEqual([4]);
  });

  it("asks rows as one whose batches become any number of rows", async () => {
    const sizes: number[] = [];
    const program = new Program()
      .stage("map", ({ id }: Row) => {
        if (id === 2) throw new Error("two");
        return { id };
      })
      .stage(
        "mapBatches",
        (batch: Row[]) => {
          sizes.push(batch.length);
          return batch.some(({ id }) => id === 9) ? ["no row"] : [{ first: batch[0]!.id }];
        },
        { rows: "any", batchSize: 3 },
      )
      .stage("flatMap", (row: JsonObject) => [row, row]);
    const engine = await open(program);
    const rows = (...ids: number[]) => ids.map((id) => ({ id }));
    const ask = (...ids: number[]) =>
      engine.infer({ ...request(ids[0]!), rows: rows(...ids) }, signal);
    const found = await ask(0, 1, 2);
    expect(found.rows).toEqual([{ first: 0 }, { first: 0 }]);
    expect([...found.failures!]).toMatchObject([[2, { code: "STAGE_FAILED" }]]);
    // More rows than a batch: stages before may have made them.
    expect((await ask(3, 4, 5, 6)).rows).toHaveLength(4);
    expect(sizes).toEqual([2, 3, 1]);
    const error = await rejectionOf(ask(9));
    expect(error).toMatchObject({ code: "STAGE_FAILED" });
  });

  it("makes and loads an instance of a class once a replica, with its arguments", async () => {
    const made: unknown[] = [];
    class Scaled {
      readonly by: number;
      isLoaded = false;
      constructor(by: number) {
        this.by = by;
        made.push(by);
      }
      async load() {
        this.isLoaded = true;
      }
      call(batch: Row[]) {
        return batch.map(({ id }) => ({ id: id * this.by, isLoaded: this.isLoaded }));
      }
    }
    const options = { constructorArgs: [10], concurrency: 3, batchSize: 1 };
    const program = new Program().stage("mapBatches", Scaled, options);
    expect(await outcomes(await open(program), 2)).toEqual([
      [{ id: 0, isLoaded: true }],
      [{ id: 10, isLoaded: true }],
    ]);
    expect(made).toEqual([10, 10, 10]);
  });

  it("hands over columns where they are asked for", async () => {
    const program = new Program().stage(
      "mapBatches",
      ({ id }: { id: number[] }) => ({ id, half: Float64Array.from(id, (value) => value / 2) }),
      { batchFormat: "columns" },
    );
    expect(await outcomes(await open(program), 3)).toEqual([
      [{ id: 0, half: 0 }],
      [{ id: 1, half: 0.5 }],
      [{ id: 2, half: 1 }],
    ]);
  });

  it("halves batches that memory does not hold, and goes on with smaller ones", async () => {
    const sizes: number[] = [];
    const program = new Program().stage(
      "mapBatches",
      (batch: Row[]) => {
        sizes.push(batch.length);
        if (batch.length > 4) throw new RangeError("Array buffer allocation failed");
        return batch;
      },
      { batchSize: 16 },
    );
    const rows = await outcomes(await open(program), 48);
    expect(rows).toEqual(Array.from({ length: 48 }, (_, id) => [{ id }]));
    expect(Math.max(...sizes.slice(-4))).toBeLessThanOrEqual(4);
  });

  it("holds fewer rows the larger they are, and makes smaller batches of them", async () => {
    const sizes: number[] = [];
    const program = new Program().stage("mapBatches", (batch: Row[]) => {
      sizes.push(batch.length);
      return batch.map(({ id }) => ({ id }));
    });
    const engine = await open(program);
    const before = engine.capacity;
    const text = "x".repeat(defaultStageChars / 4);
    const asked = Array.from({ length: 60 }, (_, id) =>
      engine.infer(request(id, { id, text }), signal),
    );
    await Promise.all(asked);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4);
    expect(engine.capacity).toBeLessThan(before / 4);
  });

  it("prepares a batch while the one before it is answered", async () => {
    const clock = virtualClock();
    const taking20Ms = async (batch: Row[]) => {
      await sleep(clock, 20);
      return batch;
    };
    const program = new Program()
      .stage("mapBatches", taking20Ms, { batchSize: 16 })
      .stage("mapBatches", taking20Ms, { batchSize: 16 });
    const engine = await open(program, { clock });
    const batches = 50;
    let asked = 0;
    const ask = async (): Promise<void> => {
      if (asked >= batches * 16) return;
      await engine.infer(request(asked++), signal);
      return ask();
    };
    await clock.run(Promise.all(Array.from({ length: engine.capacity }, ask)));
    // One after the other they would take twice as long; the first batch has nothing beside it.
    expect(clock.monotonic()).toBe((batches + 1) * 20);
  });

  it("tells what waits and what was done at each stage", async () => {
    const gate = Promise.withResolvers<void>();
    const program = new Program()
      .stage("map", (row: Row) => row)
      .stage(
        "mapBatches",
        async function slow(batch: Row[]) {
          await gate.promise;
          return batch;
        },
        { batchSize: 2, name: "slow" },
      );
    const engine = await open(program);
    const asked = outcomes(engine, 5);
    await expect.poll(() => engine.stages?.[1]).toMatchObject({ waiting: 3, inFlight: 2 });
    gate.resolve();
    await asked;
    expect(engine.stages).toMatchObject([
      { stage: "1 map", waiting: 0, inFlight: 0, rowsIn: 5, rowsOut: 5, failed: 0 },
      { stage: "2 mapBatches slow", waiting: 0, inFlight: 0, rowsIn: 5, rowsOut: 5, calls: 3 },
    ]);
  });

  it("tells with a failure what had been paid for the row", async () => {
    const usage = { promptTokens: 5, cachedTokens: 0, completionTokens: 3 };
    const model: RowModel = {
      capacity: 4,
      ask: async (row, _index, { addUsage, noteCut }) => {
        addUsage(usage);
        noteCut?.();
        return { ...row, answer: "yes" };
      },
      flush() {},
      async close() {},
    };
    const program = new Program();
    program.stages.push({ kind: "generate", model: { engine: "fake" }, prompt: "p" });
    program.stage("filter", ({ id }: Row) => {
      if (id === 1) throw new Error("one");
      return true;
    });
    const engine = await open(program, { openRowModel: async () => model });
    const [answered, failed] = await Promise.allSettled(
      [0, 1].map((id) => engine.infer(request(id), signal)),
    );
    expect(answered).toMatchObject({ value: { rows: [{ id: 0, answer: "yes" }], usage } });
    // So that `sluice retry --where finish_reason=length` finds the row.
    expect(answered).toMatchObject({ value: { answers: [{ finishReason: "length" }] } });
    expect(failed).toMatchObject({ reason: { code: "STAGE_FAILED", paid: usage } });
  });

  it("says which stage is a function that this program does not have", async () => {
    const program = new Program().stage("map", (row: Row) => row);
    const error = await rejectionOf(openPipeline(program.options(), engineContext()));
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "STAGE_UNUSABLE" });
    expect(error?.message).toContain("stage 1 map is a function of the program");
  });

  it("runs modules in processes of their own, neighbouring stages of rows in one", async () => {
    const module = moduleFile(`
      export default ({ id }) => ({ id, pid: process.pid });
      export const even = ({ id }) => id % 2 === 0;
      export class Pids {
        call(batch) { return batch.map((row) => ({ ...row, batchPid: process.pid })); }
      }`);
    const engine = await openModules([
      { kind: "map", module },
      { kind: "filter", module, export: "even" },
      { kind: "mapBatches", module, export: "Pids" },
    ]);
    const [first, none, third] = (await outcomes(engine, 3)) as JsonObject[][];
    expect(none).toEqual([]);
    expect(first).toMatchObject([{ id: 0, pid: third![0]!.pid }]);
    const pids = new Set([process.pid, first![0]!.pid, first![0]!.batchPid]);
    expect(pids.size).toBe(3);
    expect(engine.stages?.map(({ stage }) => stage)).toEqual([
      "1 map, 2 filter even",
      "3 mapBatches Pids",
    ]);
  });

  it("hands dates, bigints and typed arrays from process to process", async () => {
    const module = moduleFile(`
      export default ({ at, id, vector }) => {
        if (!(at instanceof Date) || !(vector instanceof Float32Array)) throw new Error("changed");
        return { at: new Date(at.getTime() + 1), id: id + 1n, vector: vector.map((n) => 2 * n) };
      }`);
    const engine = await openModules([{ kind: "map", module }]);
    const row = { at: new Date(1), id: 2n ** 60n, vector: new Float32Array([1, 2]) };
    const { rows } = await engine.infer(request(0, row as never), signal);
    expect(rows).toEqual([
      { at: new Date(2), id: 2n ** 60n + 1n, vector: new Float32Array([2, 4]) },
    ]);
  });

  it("starts a process again that ended, and gives its rows back", async () => {
    const module = moduleFile(`
      export default function (batch) {
        if (batch.some(({ id, spare }) => id === 1 && !spare)) process.exit(3);
        return batch;
      }`);
    const engine = await openModules([{ kind: "mapBatches", module, batchSize: 2 }]);
    expect(await outcomes(engine, 2)).toEqual(["ENGINE_DIED", "ENGINE_DIED"]);
    const asked = engine.infer(request(1, { id: 1, spare: true }), signal);
    engine.flush?.();
    expect((await asked).rows).toEqual([{ id: 1, spare: true }]);
  });

  it("names a module that does not load, or lacks the export", async () => {
    const module = moduleFile("export const Embed = 1;");
    const lacking = await rejectionOf(openModules([{ kind: "map", module, export: "Embde" }]));
    expect(lacking).toMatchObject({ code: "STAGE_UNUSABLE" });
    expect(lacking?.message).toContain("did you mean Embed?");
    const wrong = await rejectionOf(openModules([{ kind: "map", module, export: "Embed" }]));
    expect(wrong?.message).toContain("map needs a function, not a value of type number");
  });

  it("leaves functions to themselves that never settle", async () => {
    const never = () => new Promise(() => {});
    const batches = { batchSize: 1, rows: "any" };
    for (const [kind, options] of [["map"], ["mapBatches"], ["mapBatches", batches]] as const) {
      const engine = await open(new Program().stage(kind, never, options));
      const stop = new AbortController();
      const given = rejectionOf(engine.infer(request(0), stop.signal));
      const held = rejectionOf(engine.infer(request(1), signal));
      engine.flush?.();
      await sleep(systemClock, 5);
      stop.abort(new SluiceError("RUN_CANCELED"));
      expect(await given).toMatchObject({ code: "RUN_CANCELED" });
      await engine.close();
      expect(await held).toMatchObject({ code: "ENGINE_DIED" });
    }
  });

  it("fails the rows alone whose function takes longer than its time", async () => {
    const hanging = (batch: Row[]) =>
      batch.some(({ id }) => id === 1) ? new Promise(() => {}) : batch;
    const program = new Program().stage("mapBatches", hanging, { batchSize: 4, timeoutMs: 20 });
    const rows = await outcomes(await open(program), 4);
    expect(rows).toEqual([[{ id: 0 }], "STAGE_FAILED", [{ id: 2 }], [{ id: 3 }]]);
  });

  it("calls a function of batches for one batch at a time, if one was given up too", async () => {
    const [first, other] = [Promise.withResolvers<void>(), new AbortController()];
    let running = 0;
    const program = new Program().stage("mapBatches", async (batch: Row[]) => {
      expect(++running).toBe(1);
      if (batch[0]!.id === 0) await first.promise;
      running--;
      return batch;
    });
    const engine = await open(program);
    const given = rejectionOf(engine.infer(request(0), other.signal));
    engine.flush?.();
    await sleep(systemClock, 5);
    other.abort(new SluiceError("RUN_CANCELED"));
    await given;
    const next = engine.infer(request(1), signal);
    engine.flush?.();
    await sleep(systemClock, 5);
    first.resolve();
    expect((await next).rows).toEqual([{ id: 1 }]);
  });

  it("waits for promises in the results of a batch, each of which may fail its row", async () => {
    const program = () =>
      new Program().stage("mapBatches", async (batch: Row[]) =>
        batch.map(async (row) => {
          if (row.id === 1) throw new Error("one");
          return row.id === 2 ? [row, row] : row;
        }),
      );
    expect(await outcomes(await open(program()), 3)).toEqual([
      [{ id: 0 }],
      "STAGE_FAILED",
      [{ id: 2 }, { id: 2 }],
    ]);
  });
});
