import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { generate } from "../../src/dataset/generate.ts";
import { dataset } from "../../src/dataset/sources.ts";
import { numbered, rejection, words } from "./numbered-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a dataset that is read", () => {
  it("does nothing before it is asked, and no call changes the dataset before it", async () => {
    let calls = 0;
    const rows = dataset.from(numbered(4));
    const counted = rows.map((row) => {
      calls++;
      return { ...row, calls };
    });
    expect(calls).toBe(0);
    expect(await counted.take(2)).toMatchObject([{ calls: 1 }, { calls: 2 }]);
    expect(calls).toBe(2);
    expect(await rows.take(9)).toEqual(numbered(4));
  });

  it("makes rows of plain values", async () => {
    expect(await dataset.from(["a", 1, [2]]).take(3)).toEqual([
      { data: "a" },
      { data: 1 },
      { data: [2] },
    ]);
  });

  it("refuses values that JSON does not have, and takes no notice of later changes", async () => {
    const wrong = [
      [[1, undefined], "value 1 is undefined"],
      [[{ a: { b: [Number.NaN] } }], "value 0.a.b[0] is NaN"],
      [[{ a: new Map() }], "value 0.a is a Map"],
      [[{ at: new Date(Number.NaN) }], "value 0.at is an invalid Date"],
    ] as [unknown[], string][];
    for (const [values, message] of wrong) {
      expect(() => dataset.from(values)).toThrow(`dataset.from: ${message}, which JSON`);
    }
    const row = { at: new Date(0), numbers: new Float32Array([1, 2]) };
    const rows = dataset.from([row, new Date(0)] as object[]);
    row.at = new Date(1);
    expect(await rows.take(2)).toEqual([
      { at: new Date(0), numbers: new Float32Array([1, 2]) },
      { data: new Date(0) },
    ]);
  });

  it("hands on dates, bigints and typed arrays as they are, also behind a shuffle", async () => {
    const typed = dataset
      .from([{ at: new Date(5), id: 2n ** 60n }])
      .map((row) => ({ ...row, next: new Date(row.at.getTime() + 1), sum: row.id + 1n }))
      .withColumn("vector", () => new Float32Array([0.5, 1]))
      .shuffle()
      .mapBatches((batch) =>
        batch.map((row) => ({ ...row, isDate: row.next instanceof Date, half: row.vector[0] })),
      );
    expect(await typed.take(1)).toEqual([
      {
        ...{ at: new Date(5), id: 2n ** 60n, next: new Date(6), sum: 2n ** 60n + 1n },
        ...{ vector: new Float32Array([0.5, 1]), isDate: true, half: 0.5 },
      },
    ]);
    const asked = typed.pipe(generate({ model: { engine: "fake" }, prompt: "{{ at }} {{ sum }}" }));
    const [row] = await asked.take(1);
    expect(row?.at).toEqual(new Date(5));
    const output = join(folder, "typed");
    await asked.run({ output });
    const line = readFileSync(join(output, "part-00000.jsonl"), "utf8");
    expect(line).toContain('"at":"1970-01-01T00:00:00.005Z","id":1152921504606846976');
    expect(line).toContain('"vector":[0.5,1]');
  });

  it("reads addresses and TSV, and refuses schemas that hold code", async () => {
    const input = join(folder, "in.tsv");
    writeFileSync(input, "id\ttext\n1\tone\n");
    expect(await dataset.csv(pathToFileURL(input)).take(1)).toEqual([{ id: "1", text: "one" }]);
    const filled = z.object({ id: z.number().default(1) });
    expect(() => dataset.csv(input, filled)).toThrow("schema.id has a default");
    expect(() => dataset.csv([])).toThrow("a dataset of no path");
  });

  it("names the stage whose result is no row", async () => {
    const rows = dataset.from([{ id: 1, text: "one" }]);
    const messages = [
      [rows.map(() => ({ size: new Set() })), "stage 1 map: its result.size is a Set"],
      [rows.select("nope" as "id"), "stage 1 select: the row has no column nope, but id, text"],
      [rows.rename({ id: "text" } as never), "stage 1 rename: two columns would have one name"],
    ] as const;
    for (const [wrong, message] of messages) {
      const error = await rejection(wrong.take(1));
      expect(error.code).toBe("STAGE_FAILED");
      expect(error.message).toContain(message);
    }
    const map = rows.map.bind(rows) as unknown as (code: unknown) => unknown;
    expect(() => map({ call() {} })).toThrow("map takes code, not object");
  });

  it("hands over batches of many rows where no size is given", async () => {
    const sizes: number[] = [];
    const rows = dataset.from(numbered(2000)).mapBatches((batch) => {
      sizes.push(batch.length);
      return batch;
    });
    expect(await rows.count()).toBe(2000);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256);
    expect(sizes.length).toBeLessThan(100);
  });

  it("takes results, not rows: some become none, others several", async () => {
    expect(await words(12).take(3)).toEqual([
      { id: 1, word: "row" },
      { id: 1, word: "1" },
      { id: 5, word: "row" },
    ]);
    expect(await words(12).count()).toBe(8);
    expect(await words(12).take(0)).toEqual([]);
  });

  it("gives every row to a loop, and asks no further than it goes", async () => {
    const asked: number[] = [];
    const rows = dataset.from(numbered(5000)).map((row) => {
      asked.push(row.id);
      return row;
    });
    const seen: number[] = [];
    for await (const { id } of rows) {
      seen.push(id);
      if (id === 99) break;
    }
    expect(seen).toEqual(Array.from({ length: 100 }, (_, id) => id));
    expect(asked.length).toBeLessThan(2000);
  });

  it("adds, keeps and renames columns", async () => {
    const rows = dataset
      .from(numbered(1))
      .withColumn("size", ({ text }) => text.length)
      .rename({ text: "said" })
      .select("said", "size");
    expect(await rows.take(1)).toEqual([{ said: "row 0", size: 5 }]);
    expect((await rows.schema()).map(({ name }) => name)).toEqual(["said", "size"]);
  });

  it("limits results behind a filter, and rows before one", async () => {
    const odd = dataset.from(numbered(10)).filter(({ id }) => id % 2 === 1);
    expect((await odd.limit(2).take(9)).map(({ id }) => id)).toEqual([1, 3]);
    const first = dataset
      .from(numbered(10))
      .limit(3)
      .limit(5)
      .filter(({ id }) => id % 2 === 1);
    expect((await first.take(9)).map(({ id }) => id)).toEqual([1]);
  });

  it("samples and shuffles under a seed", async () => {
    const rows = dataset.from(numbered(100));
    const ids = async (from: typeof rows) => (await from.take(100)).map(({ id }) => id);
    const shuffled = await ids(rows.shuffle({ seed: 4 }));
    expect(shuffled).not.toEqual(shuffled.toSorted((a, b) => a - b));
    expect(shuffled.toSorted((a, b) => a - b)).toEqual(numbered(100).map(({ id }) => id));
    expect(await ids(rows.shuffle({ seed: 4 }))).toEqual(shuffled);
    const sampled = await ids(rows.sample(7, { seed: 2 }));
    expect(sampled).toHaveLength(7);
    expect(sampled).toEqual(sampled.toSorted((a, b) => a - b));
    const share = await ids(rows.sample(0.5, { seed: 2 }));
    expect(share.length).toBeGreaterThan(25);
    expect(share.length).toBeLessThan(75);
  });

  it("tells what each stage did", async () => {
    const stats = await words(12)
      .mapBatches((batch) => batch, { batchSize: 3, name: "same" })
      .stats();
    expect(stats).toMatchObject([
      { stage: "1 filter, 2 flatMap", rowsIn: 12, rowsOut: 8 },
      { stage: "3 mapBatches same", rowsIn: 8, rowsOut: 8, calls: 3 },
    ]);
  });

  it("ends with the first row that fails, which it names", async () => {
    const rows = dataset.from(numbered(9)).map((row) => {
      if (row.id === 4) throw new TypeError("four is no good");
      return row;
    });
    const error = await rejection(rows.take(9));
    expect(error).toMatchObject({ code: "STAGE_FAILED" });
    expect(error.message).toMatch(/stage 1 map: TypeError: four is no good \(row 5\)$/);
    const behind = await rejection(rows.shuffle({ seed: 1 }).take(9));
    expect(behind.message).toMatch(/four is no good \(row 5\)$/);
    const shuffled = dataset.from(numbered(9)).shuffle({ seed: 1 });
    const later = await rejection(shuffled.map(() => Number.NaN as never).take(9));
    expect(later.message).toMatch(/its result is NaN, which JSON .* \(row 1 behind shuffle\)$/);
    expect(await rows.take(4)).toHaveLength(4);
  });

  it("asks models, with prompts over the rows of the stages before", async () => {
    const model = { engine: "fake" } as const;
    const rows = dataset
      .from(numbered(3))
      .map(({ id }) => ({ name: `n${id}` }))
      .pipe(generate({ model, prompt: "Say {{ name }}", field: "said" }));
    const taken = await rows.take(3);
    expect(taken.map(({ name }) => name)).toEqual(["n0", "n1", "n2"]);
    for (const { said } of taken) expect(said.length).toBeGreaterThan(0);
  });

  it("refuses what a stage could not be asked, before any row", async () => {
    const model = { engine: "fake" } as const;
    const rows = dataset.from(numbered(1));
    const wrong = rows.pipe(generate({ model, prompt: "Say {{ text" }));
    expect((await rejection(wrong.take(1))).code).toBe("TEMPLATE_INVALID");
    const misspelt = { batchsize: 4 } as object;
    expect(() => rows.mapBatches((batch) => batch, misspelt)).toThrow("did you mean batchSize?");
    class Given {
      call(batch: object[]) {
        return batch;
      }
    }
    const cycle: unknown[] = [];
    cycle.push(cycle);
    for (const argument of [1n, new Map(), cycle]) {
      const constructorArgs = [argument] as never;
      expect(() => rows.mapBatches(Given, { constructorArgs })).toThrow("what JSON does not have");
    }
    expect(() => rows.limit(0.5)).toThrow("limit: 0.5 is not a whole number of 0 or more");
  });

  it("reads long numbers as text if its job says so", async () => {
    const path = join(folder, "long.jsonl");
    writeFileSync(path, '{"id":9007199254740993,"x":1.5}\n');
    const job = { longNumbers: "text" } as const;
    const same = dataset.jsonl(path).map((row) => row);
    expect(await same.take(1, { job })).toEqual([{ id: "9007199254740993", x: 1.5 }]);
  });

  it("ends with the reason of an abort while the loop works", async () => {
    const stop = new AbortController();
    const rows = dataset.from(numbered(600)).mapBatches(
      async (batch) => {
        await setTimeout(5);
        return batch;
      },
      { batchSize: 10 },
    );
    const loop = async () => {
      for await (const _ of rows.iterBatches({ batchSize: 1, signal: stop.signal })) {
        stop.abort();
        await setTimeout(30);
      }
    };
    expect(await rejection(loop())).toBe(stop.signal.reason);
  });
});
