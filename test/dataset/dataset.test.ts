import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { verify } from "../../src/api/inspect.ts";
import { generate } from "../../src/dataset/generate.ts";
import { dataset } from "../../src/dataset/sources.ts";
import type { SluiceError } from "../../src/foundation/errors.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import type { RunEvent } from "../../src/run/events.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Numbered {
  id: number;
  text: string;
}

const numbered = (count: number): Numbered[] =>
  Array.from({ length: count }, (_, id) => ({ id, text: `row ${id}` }));

/** Words of every row but each third: rows become none, one or two. */
const words = (count: number) =>
  dataset
    .from(numbered(count))
    .filter(({ id }) => id % 3 !== 0)
    .flatMap(({ id, text }) => (id % 2 === 0 ? [] : text.split(" ").map((word) => ({ id, word }))));

const linesOf = (directory: string) =>
  readdirSync(directory)
    .filter((name) => name.startsWith("part-"))
    .sort()
    .flatMap((name) => readFileSync(join(directory, name), "utf8").split("\n"))
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);

const rejection = (promise: Promise<unknown>): Promise<SluiceError> =>
  promise.then(
    () => Promise.reject(new Error("it was not rejected")),
    (error) => error as SluiceError,
  );

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
    expect(error.message).toMatch(/stage 1 map: TypeError: four is no good \(.*:5\)$/);
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
    expect(() => rows.limit(0.5)).toThrow("limit: 0.5 is no whole number from 1 up");
  });
});

describe("a dataset that is carried out as a run", () => {
  it("counts rows in, results out, filtered and failed, and can be verified", async () => {
    const output = join(folder, "counted");
    const rows = words(30).map((row) => {
      if (row.id === 7) throw new Error("seven");
      return row;
    });
    const { summary, stages, error } = await rows.run({ output, job: { shard: { rows: 8 } } });
    expect(error).toBeUndefined();
    expect(summary.rows).toMatchObject({ total: 30, answered: 9, filtered: 20, failed: 1 });
    expect(summary.rows.results).toBe(18);
    expect(stages[0]).toMatchObject({ rowsIn: 30, failed: 1 });
    const { manifest, damages } = await verify(output);
    expect(damages).toEqual([]);
    expect(manifest?.rows).toMatchObject({ total: 30, results: 18, filtered: 20, failed: 1 });
    expect(linesOf(output).map(({ id }) => id)).toEqual(
      [1, 5, 11, 13, 17, 19, 23, 25, 29].flatMap((id) => [id, id]),
    );
  });

  it("goes on where it stopped, at whatever row that was", async () => {
    const random = seededRandom(11);
    const expected = await words(60).take(1000);
    for (let round = 0; round < 4; round++) {
      const output = join(folder, `stopped-${round}`);
      const seen = new Map<number, number>();
      for (let call = 0; ; call++) {
        const stop = new AbortController();
        let left = Math.floor(random.next() * 25);
        const rows = dataset
          .from(numbered(60))
          .map(async (row) => {
            seen.set(row.id, (seen.get(row.id) ?? 0) + 1);
            if (call < 4 && left-- === 0) stop.abort();
            return row;
          })
          .filter(({ id }) => id % 3 !== 0)
          .flatMap(({ id, text }) =>
            id % 2 === 0 ? [] : text.split(" ").map((word) => ({ id, word })),
          );
        const options = { output, signal: stop.signal, job: { shard: { rows: 7 } } };
        const { error, summary } = await rows.run(options);
        if (error) continue;
        expect(summary.rows).toMatchObject({ total: 60, filtered: 40, failed: 0 });
        break;
      }
      expect(linesOf(output)).toEqual(expected);
      expect((await verify(output)).damages).toEqual([]);
      expect(seen.size).toBe(60);
    }
  });

  it("refuses to go on with another function", async () => {
    const output = join(folder, "changed");
    const rows = dataset.from(numbered(3));
    await rows.map((row) => ({ ...row, by: 1 })).run({ output });
    const error = await rejection(rows.map((row) => ({ ...row, by: 2 })).run({ output }));
    expect(error.code).toBe("RUN_DIFFERS");
    const again = await rows.map((row) => ({ ...row, by: 1 })).run({ output });
    expect(again.wasSealed).toBe(true);
  });

  it("says that functions of the program cannot be handed to other machines", async () => {
    const notices: string[] = [];
    const onEvent = (event: RunEvent) => {
      if (event.type === "notice") notices.push(event.message);
    };
    const rows = dataset.from(numbered(2)).map((row) => row);
    await rows.run({ output: join(folder, "noticed"), onEvent });
    expect(notices.join()).toMatch(/stage 1 is a function of this program.*no other machine/);
    const { notices: planned } = await rows.plan({ output: join(folder, "planned") });
    expect(planned.join()).toMatch(/no other machine can have this run/);
    expect(existsSync(join(folder, "planned"))).toBe(false);
    expect(() => rows.job({ output: "out" })).toThrow("its rows come from this program");
  });

  it("is a plain job where its stages are modules", () => {
    const job = dataset
      .jsonl(["a.jsonl", "b.jsonl"])
      .map("file:///stages/clean.ts#clean")
      .limit(10)
      .mapBatches(new URL("file:///stages/embed.ts"), { memory: "2G", numCpus: 4 })
      .repartition(4)
      .job({ output: "out", resources: { cpus: 16 }, job: { name: "mine" } });
    expect(job).toMatchObject({
      name: "mine",
      input: [{ path: "a.jsonl" }, { path: "b.jsonl" }],
      output: "out",
      limit: 10,
      shard: { count: 4 },
      model: {
        engine: "pipeline",
        resources: { cpus: 16 },
        stages: [
          { kind: "map", module: "/stages/clean.ts", export: "clean" },
          { kind: "mapBatches", module: "/stages/embed.ts", memoryBytes: 2 ** 31, numCpus: 4 },
        ],
      },
    });
  });

  it("plans as many shards as repartition wants, multiples of the batch size", async () => {
    const sizes: number[] = [];
    const rows = dataset
      .from(numbered(100))
      .repartition(3)
      .mapBatches(
        (batch) => {
          sizes.push(batch.length);
          return batch;
        },
        { batchSize: 16 },
      );
    const { manifest } = await rows
      .run({ output: join(folder, "sized") })
      .then(() => verify(join(folder, "sized")));
    expect(manifest?.tasks.map(({ rows }) => rows)).toEqual([48, 48, 4]);
    expect(sizes).toEqual([16, 16, 16, 16, 16, 16, 4]);
  });

  it("takes what a cache of answers knows, without waiting for full batches", async () => {
    let calls = 0;
    const rows = dataset.from(numbered(10)).mapBatches(
      function counted(batch) {
        calls += batch.length;
        return batch;
      },
      { batchSize: 4 },
    );
    const job = { cache: join(folder, "cache"), generation: { temperature: 0 } };
    await rows.run({ output: join(folder, "uncached"), job });
    const { summary } = await rows.run({ output: join(folder, "cached"), job });
    expect(summary.rows).toMatchObject({ answered: 10, results: 10 });
    expect(calls).toBe(10);
  });

  it("carries out stages before a shuffle as a run of their own, once", async () => {
    const output = join(folder, "behind.jsonl");
    let calls = 0;
    const rows = dataset
      .from(numbered(20))
      .map((row) => {
        calls++;
        return { ...row, half: row.id / 2 };
      })
      .shuffle({ seed: 5 })
      .limit(6)
      .withColumn("third", ({ id }) => id / 3);
    await rows.writeJsonl(output);
    const written = readFileSync(output, "utf8").trim().split("\n");
    expect(written).toHaveLength(6);
    expect(JSON.parse(written[0]!)).toHaveProperty("third");
    const again = await rows.writeJsonl(output);
    expect(again.wasSealed).toBe(true);
    expect(calls).toBe(20);
  });

  it("reads and writes CSV, JSON and Parquet, by a schema where one is given", async () => {
    const [csv, json, parquet] = ["csv", "json", "parquet"].map((e) => join(folder, `rows.${e}`));
    const input = join(folder, "in.csv");
    writeFileSync(input, "id,text\n1,one\nx,three\n2,two\n");
    const typed = dataset.csv(input, z.object({ id: z.number(), text: z.string() }));
    const tenfold = typed.map(({ id, text }) => ({ id: 10 * id, text }));
    const { summary } = await tenfold.writeCsv(csv!);
    expect(summary.errors).toEqual({ ROW_SCHEMA: 1 });
    expect(readFileSync(csv!, "utf8")).toBe("id,text\n10,one\n20,two\n");
    const tagged = dataset.from([{ id: 1, tags: ["a", "b"] }]).flatMap((row) => [row, row]);
    await tagged.writeParquet(parquet!);
    expect(await dataset.parquet(parquet!).take(9)).toEqual(await tagged.take(9));
    await tagged.writeJson(json!);
    expect(await dataset.json(json!).count()).toBe(2);
  });

  it("writes broken rows as dead letters, and the others", async () => {
    const input = join(folder, "broken.jsonl");
    writeFileSync(input, '{"id":0}\n{"id":1,\n{"id":2}\n');
    const output = join(folder, "mended");
    const { summary } = await dataset
      .jsonl(input)
      .map((row) => row)
      .run({ output });
    expect(summary.rows).toMatchObject({ total: 3, answered: 2, failed: 1 });
    expect(summary.errors).toEqual({ JSON_INVALID: 1 });
  });
});
