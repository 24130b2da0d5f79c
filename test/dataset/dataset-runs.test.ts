import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { results, status, verify } from "../../src/api/inspect.ts";
import { dataset } from "../../src/dataset/sources.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import { numbered, rejection, words } from "./numbered-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-runs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const linesOf = (directory: string) =>
  readdirSync(directory)
    .filter((name) => name.startsWith("part-"))
    .sort()
    .flatMap((name) => readFileSync(join(directory, name), "utf8").split("\n"))
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("a dataset that is called again", () => {
  /** A program whose function reads a variable. */
  const scaled = (by: number, closure?: { by: number }) =>
    dataset
      .from(numbered(6))
      .shuffle({ seed: 1 })
      .map(({ id }) => ({ id: id * by }), closure && { closure });

  it("says that rows are those of an earlier call, and computes them anew if told to", async () => {
    const output = join(folder, "again");
    const first = await scaled(2).run({ output });
    expect(first.resumed).toBe(0);
    const notices: string[] = [];
    const onEvent = (event: RunEvent) => {
      if (event.type === "notice") notices.push(event.message);
    };
    const again = await scaled(3).run({ output, onEvent });
    expect(again).toMatchObject({ wasSealed: true, resumed: 6 });
    expect(notices.join("\n")).toContain("6 rows were computed by an earlier call and not again");
    const sum = () => linesOf(output).reduce((total, { id }) => total + Number(id), 0);
    expect(sum()).toBe(30);
    const fresh = await scaled(3).run({ output, fresh: true });
    expect([fresh.resumed, sum()]).toEqual([0, 45]);
  });

  it("is another run with other values in its closure", async () => {
    const output = join(folder, "closures");
    await scaled(2, { by: 2 }).run({ output });
    const error = await rejection(scaled(3, { by: 3 }).run({ output }));
    expect(error).toMatchObject({ code: "RUN_DIFFERS" });
    expect(error.message).toContain("closure");
    expect((await scaled(2, { by: 2 }).run({ output })).wasSealed).toBe(true);
    const wrong = () => dataset.from([1]).map((row) => row, { closure: { map: new Map() } });
    expect(wrong).toThrow("map: closure.map is a Map");
    const bound = ((row: object) => row).bind(null);
    expect(() => dataset.from([1]).map(bound)).toThrow("nothing tells a bound function");
    expect(() => dataset.from(Promise.resolve([1]) as never)).toThrow("the values are not a list");
    expect(() => dataset.from([1]).map("./stage.ts" as never, { closure: {} })).toThrow("a module");
  });

  it("makes steps before the last run anew too", async () => {
    const output = join(folder, "again-before");
    const rows = (by: number) =>
      words(9)
        .map(({ id }) => ({ id: by * id }))
        .shuffle();
    await rows(1).run({ output });
    expect((await rows(2).run({ output })).resumed).toBeGreaterThan(3);
    expect(linesOf(output).map(({ id }) => id)).not.toContain(14);
    await rows(2).run({ output, fresh: true });
    expect(linesOf(output).map(({ id }) => id)).toContain(14);
  });

  it("is planned as the run that the output holds", async () => {
    const output = join(folder, "planned-again");
    const rows = words(9)
      .shuffle()
      .map(({ id }) => ({ id }));
    await rows.run({ output });
    const { standing, notices } = await rows.plan({ output });
    expect(standing?.differsIn).toEqual([]);
    expect(notices.join("\n")).toContain("of this job, which is finished");
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

  it("gives each stage with `rows: any` whole batches of neighbouring rows", async () => {
    const batches: number[][] = [];
    const seen = (batch: { id: number }[]) => {
      batches.push(batch.map(({ id }) => id));
      return batch;
    };
    const rows = dataset
      .from([0, 1, 2, 3, 4, 5].map((id) => ({ id })))
      .mapBatches(seen, { rows: "any", batchSize: 2 })
      .mapBatches((batch) => batch, { rows: "any", batchSize: 3 });
    await rows.run({ output: join(folder, "two-sizes") });
    expect(batches.sort()).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
    ]);
  });

  it("counts filtered rows apart in summary, status and manifest, also in open tasks", async () => {
    const output = join(folder, "filtered");
    const stop = new AbortController();
    const statusRows = async () => (await status(output)).run.rows;
    /** Stops the run when the outcomes of the first rows are journaled. */
    const stopping = async () => {
      for (;;) {
        const { answered, filtered, journaled } = await statusRows();
        expect(answered + journaled).toBeLessThanOrEqual(4);
        if (journaled > 0 && filtered > 0) return stop.abort();
        await setTimeout(10);
      }
    };
    let stopped: Promise<void> | undefined;
    let begun = 0;
    const rows = dataset
      .from(numbered(4000))
      .filter(({ id }) => id % 4 === 0)
      .map(async (row) => {
        if (++begun === 5) stopped = stopping();
        await stopped;
        return row;
      });
    const { error, summary } = await rows.run({ output, signal: stop.signal });
    expect(error?.code).toBe("RUN_CANCELED");
    const { answered, journaled, filtered } = await statusRows();
    expect(summary.rows).toMatchObject({ answered: answered + journaled, filtered });
    expect(answered + journaled).toBeLessThanOrEqual(begun);
    const counts = { answered: 1000, filtered: 3000, failed: 0 };
    expect((await rows.run({ output })).summary.rows).toMatchObject(counts);
    expect(await statusRows()).toMatchObject({ ...counts, journaled: 0 });
    expect((await verify(output)).manifest?.rows).toMatchObject(counts);
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
    // Seven batches on three shards.
    expect(manifest?.tasks.map(({ rows }) => rows)).toEqual([48, 32, 20]);
    expect(sizes).toEqual([16, 16, 16, 16, 16, 16, 4]);
  });

  it("plans exactly as many shards as repartition wants, and finds them again", async () => {
    const input = join(folder, "cut.csv");
    writeFileSync(
      input,
      `id\n${numbered(45)
        .map(({ id }) => `${id}\n`)
        .join("")}`,
    );
    const cut = dataset
      .csv(input)
      .repartition(7)
      .filter(() => true);
    const output = join(folder, "cut");
    await cut.run({ output });
    const { manifest, damages } = await verify(output);
    expect(damages).toEqual([]);
    expect(manifest?.tasks.map(({ rows }) => rows)).toEqual([7, 7, 7, 6, 6, 6, 6]);
    expect(linesOf(output).map(({ id }) => Number(id))).toEqual(numbered(45).map(({ id }) => id));
    // Equal content at another time is looked through, and cut alike.
    utimesSync(input, 1, 1);
    expect((await cut.run({ output })).wasSealed).toBe(true);
  });

  it("keeps the digits of numbers that come out as they went in", async () => {
    const path = join(folder, "long.jsonl");
    const ids = ["9007199254740993", "9007199254740992", "-123456789012345678901"];
    writeFileSync(path, ids.map((id) => `{"id":${id},"in":{"a":[${id}]},"x":1.5}\n`).join(""));
    const rows = dataset.jsonl(path).map(({ id, ...rest }) => ({ key: id!, ...rest }));
    const kept = ids.map((id) => `{"key":${id},"in":{"a":[${id}]},"x":1.5}`);
    const output = join(folder, "kept.jsonl");
    // Equal rows, as a stage sees them, share an answer, and each gets its own digits.
    await rows.run({ output, job: { generation: { temperature: 0 } } });
    expect(readFileSync(output, "utf8").trim().split("\n")).toEqual(kept);
    const shuffled = join(folder, "shuffled.jsonl");
    await rows.shuffle({ seed: 3 }).writeJsonl(shuffled);
    expect(readFileSync(shuffled, "utf8").trim().split("\n").sort()).toEqual(kept.toSorted());
  });

  it("tells of rows that failed before a shuffle", async () => {
    const notices: string[] = [];
    const rows = dataset.from(numbered(6)).map((row) => {
      if (row.id === 4) throw new Error("four");
      return row;
    });
    const output = join(folder, "before.jsonl");
    const { summary, before, exitCode } = await rows.shuffle().run({
      output,
      onEvent: (event) => {
        if (event.type === "notice") notices.push(event.message);
      },
    });
    expect(summary.rows).toMatchObject({ total: 5, failed: 0 });
    expect(before).toMatchObject([{ rows: { total: 6, failed: 1 } }]);
    expect(exitCode).toBe(1);
    expect(notices.join()).toContain("1 row failed before shuffle");
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

  it("takes values that JSON lacks from a cache as they were", async () => {
    let calls = 0;
    const typed = dataset.from([{ id: 1 }]).map((row) => {
      calls++;
      const [v, b] = [new Float32Array([1, 2]), new Uint8Array([1])];
      return { ...row, v, b, at: new Date(0), whole: 2n ** 60n, $type: "mine" };
    });
    const job = { cache: join(folder, "typed-cache"), generation: { temperature: 0 } };
    const [first, second] = [join(folder, "typed-1"), join(folder, "typed-2")];
    await typed.run({ output: first, job });
    await typed.run({ output: second, job });
    expect(calls).toBe(1);
    const text = readFileSync(join(first, "part-00000.jsonl"), "utf8");
    expect(text).toContain('"v":[1,2],"b":"AQ=="');
    expect(readFileSync(join(second, "part-00000.jsonl"), "utf8")).toBe(text);
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

  it("has results whose reading ends between two lines", async () => {
    const output = join(folder, "many");
    await dataset.from(numbered(15_000)).run({ output, job: { shard: { rows: 15_000 } } });
    const stop = new AbortController();
    let count = 0;
    for await (const { id } of results(output, { signal: stop.signal })) {
      expect(id).toBe(count++);
      if (count === 5) stop.abort();
    }
    expect(count).toBe(5);
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
