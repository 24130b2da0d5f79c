import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { indexesIn } from "../../../src/foundation/index-set.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import type { Task } from "../../../src/run/plan/plan.ts";
import {
  assertSameInput,
  defaultTaskRows,
  drawSample,
  onlyChosen,
  plannedOrder,
  prefixTaskRows,
  scanInput,
  taskSize,
} from "../../../src/run/plan/scan-input.ts";
import { errorOf, filesInMemory, foundIn, jobOf, plannedRun, rowsOf } from "../run-fixture.ts";

describe("drawSample", () => {
  it("gives exactly so many different rows, ascending", () => {
    for (const [rows, size] of [
      [100, 7],
      [100, 100],
      [5, 9],
      [1, 1],
      [0, 3],
    ] as const) {
      const drawn = drawSample(rows, size, seededRandom(4));
      expect(drawn).toHaveLength(Math.min(rows, size));
      expect(new Set(drawn).size).toBe(drawn.length);
      expect(drawn.every((row) => row >= 0 && row < rows)).toBe(true);
      expect(drawn).toEqual(drawn.toSorted((a, b) => a - b));
    }
  });

  it("gives every row the same chance", () => {
    const counts = new Array<number>(10).fill(0);
    const random = seededRandom(8);
    for (let draw = 0; draw < 5000; draw++)
      for (const row of drawSample(10, 3, random)) counts[row]!++;
    // 1500 each are expected; five standard deviations are 162.
    for (const count of counts) expect(Math.abs(count - 1500)).toBeLessThan(162);
  });

  it("follows from its seed", () => {
    expect(drawSample(1000, 20, seededRandom(1))).toEqual(drawSample(1000, 20, seededRandom(1)));
    expect(drawSample(1000, 20, seededRandom(1))).not.toEqual(
      drawSample(1000, 20, seededRandom(2)),
    );
  });
});

describe("onlyChosen", () => {
  const tasks: Task[] = [0, 1, 2, 3].map((task) => ({
    task,
    firstRow: task * 5,
    rows: 5,
    slices: [],
  }));

  it("keeps the tasks that hold a chosen row, numbered anew, with those rows", () => {
    expect([...onlyChosen(tasks, [0, 4, 10, 11, 12, 19])]).toEqual([
      { task: 0, firstRow: 0, rows: 5, slices: [], only: "0,4", onlyRows: 2 },
      { task: 1, firstRow: 10, rows: 5, slices: [], only: "10-12", onlyRows: 3 },
      { task: 2, firstRow: 15, rows: 5, slices: [], only: "19", onlyRows: 1 },
    ]);
  });

  it("keeps none where nothing is chosen", () => {
    expect([...onlyChosen(tasks, [])]).toEqual([]);
  });
});

describe("defaultTaskRows", () => {
  it("makes sixteen shards a worker, within bounds", () => {
    expect(defaultTaskRows(16_000, 10)).toBe(100);
    expect(defaultTaskRows(3, 8)).toBe(4);
    expect(defaultTaskRows(10_000_000, 1)).toBe(limits.maxTaskRows);
  });

  it("leaves no worker with a shard more than the others where a smaller shard avoids that", () => {
    // 58 shards of 7 would give two of four workers 105 rows.
    expect(defaultTaskRows(400, 4)).toBe(5);
  });
});

describe("a plan's tasks", () => {
  it("hold every row once, in order, with the checksum of their bytes", async () => {
    const { context, plan, task } = await plannedRun(rowsOf(10), { shard: { rows: 4 } });
    const all = await Promise.all([0, 1, 2].map(task));
    expect(all.map(({ firstRow, rows }) => [firstRow, rows])).toEqual([
      [0, 4],
      [4, 4],
      [8, 2],
    ]);
    expect([plan.rows, plan.tasks.count, plan.input.rows]).toEqual([10, 3, 10]);
    expect(new Set(all.map(({ slices }) => slices[0]!.sha256)).size).toBe(3);
    expect(context.plan.input.rowsPerTask).toBe(4);
  });

  it("hold the first rows only, under a limit", async () => {
    const { plan } = await plannedRun(rowsOf(10), { limit: 5, shard: { rows: 4 } });
    expect([plan.rows, plan.tasks.count]).toEqual([5, 2]);
  });

  it("hold a sample of all rows, the same for the same seed", async () => {
    const changes: Partial<JobInput> = { sample: 5, shard: { rows: 7 } };
    const [first, second] = [
      await plannedRun(rowsOf(50), changes),
      await plannedRun(rowsOf(50), changes),
    ];
    expect(first.plan.tasks.file.sha256).toBe(second.plan.tasks.file.sha256);
    const chosen: number[] = [];
    for (let number = 0; number < first.plan.tasks.count; number++) {
      chosen.push(...indexesIn((await first.task(number)).only!));
    }
    expect(chosen).toHaveLength(5);
    expect(first.plan.rows).toBe(5);
    expect(first.plan.input.rows).toBe(50);
  });
});

describe("taskSize", () => {
  const sizeOf = (rows: number, shard: JobInput["shard"], changes: Partial<JobInput> = {}) => {
    const text = rowsOf(rows).join("\n");
    const found = foundIn({ "/in/rows.jsonl": text });
    const openFile = filesInMemory({ "/in/rows.jsonl": text });
    return taskSize(found, jobOf({ shard, ...changes }), 2, "input", openFile);
  };

  it("makes tasks of the size that the engine wants, if the job names none", async () => {
    const model = (batch: object) => ({
      model: { engine: "openai" as const, name: "m", via: "batch" as const, batch },
    });
    expect(await sizeOf(45, {}, model({ maxBatches: 3 }))).toEqual({ rowsPerTask: 15 });
    expect(await sizeOf(45, {}, model({ maxRequests: 8 }))).toEqual({ rowsPerTask: 8 });
    expect(await sizeOf(45, { rows: 9 }, model({ maxRequests: 8 }))).toEqual({ rowsPerTask: 9 });
  });

  it("makes as many shards as are counted, a row apart", async () => {
    expect(await sizeOf(10_000, { count: 20 })).toEqual({ rowsPerTask: 500 });
    expect(await sizeOf(45, { count: 7 })).toEqual({
      rowsPerTask: 6,
      longerTasks: { tasks: 3, rows: 7 },
    });
    expect(await sizeOf(45, { count: 7 }, { limit: 5 })).toEqual({ rowsPerTask: 1 });
    expect(await sizeOf(0, { count: 7 })).toEqual({ rowsPerTask: 1 });
    expect(await sizeOf(45, { rows: 8 })).toEqual({ rowsPerTask: 8 });
  });

  it("makes them multiples of a pipeline's batches", async () => {
    const stages = [{ kind: "mapBatches" as const, module: "/stage.ts", batchSize: 16 }];
    const pipeline = { model: { engine: "pipeline" as const, stages }, prompt: undefined };
    expect(await sizeOf(100, { count: 3 }, pipeline)).toEqual({
      rowsPerTask: 32,
      longerTasks: { tasks: 1, rows: 48 },
    });
    expect(await sizeOf(100, { count: 20 }, pipeline)).toEqual({ rowsPerTask: 16 });
    expect(await sizeOf(100, { rows: 20 }, pipeline)).toEqual({ rowsPerTask: 32 });
  });
});

describe("assertSameInput", () => {
  /** Looks at other files than those that were planned. */
  async function compare(texts: { planned: string; now: string }, isTouched: boolean) {
    const path = "/in/rows.jsonl";
    const job = jobOf();
    const scanOf = (text: string) => ({
      storage: memoryStorage(),
      job,
      seed: 1,
      workers: 1,
      uniqueId: "a",
      openFile: filesInMemory({ [path]: text }),
      onEvent() {},
    });
    const before = await scanInput(foundIn({ [path]: texts.planned }), scanOf(texts.planned), 3);
    const found = foundIn({ [path]: texts.now });
    const now = isTouched ? { ...found, modifiedDigest: "2" } : found;
    return assertSameInput(before, now, scanOf(texts.now));
  }

  const planned = rowsOf(5).join("\n");
  const changed = planned.replace("row 3", "ROW 3");

  it("takes a file that was touched and has the same content", async () => {
    await expect(compare({ planned, now: planned }, true)).resolves.toBeUndefined();
  });

  it("refuses other content of the same size", async () => {
    const error = await errorOf(compare({ planned, now: changed }, true));
    expect(error).toMatchObject({ code: "INPUT_CHANGED" });
    expect(error.message).toContain("checksums differ");
  });

  it("refuses another size without reading", async () => {
    const error = await errorOf(compare({ planned, now: `${planned}\n` }, false));
    expect(error.message).toContain(`of ${planned.length} bytes`);
  });

  it("does not read files whose times and sizes are the same", async () => {
    await expect(compare({ planned, now: changed }, false)).resolves.toBeUndefined();
  });
});

describe("plannedOrder", () => {
  const text = (at: number) => JSON.stringify({ text: `${at % 40}: `.repeat(100) + at });
  const content = `${Array.from({ length: 160 }, (_, at) => text(at)).join("\n")}\n`;
  const files = { "/data/in.jsonl": content };
  const llama = { engine: "llama" as const, name: "model.gguf" };
  const orderOf = (changes: Partial<JobInput>) =>
    plannedOrder(foundIn(files), jobOf(changes), filesInMemory(files));

  it("is by prefix where an engine keeps prefixes and sorting brings them together", async () => {
    expect(await orderOf({ model: llama })).toBe("prefix");
    expect(await orderOf({ model: llama, limit: 20 })).toBe("input");
    expect(await orderOf({})).toBe("input");
  });

  it("is what the job says", async () => {
    expect(await orderOf({ model: llama, order: "input" })).toBe("input");
    expect(await orderOf({ order: "prefix" })).toBe("prefix");
  });
});

describe("prefixTaskRows", () => {
  it("makes shards as large as they may be, one for each worker", () => {
    expect(prefixTaskRows(1_000_000, 2)).toBe(limits.maxTaskRows);
    expect(prefixTaskRows(1000, 2)).toBe(500);
    expect(prefixTaskRows(0, 2)).toBe(4);
  });
});
