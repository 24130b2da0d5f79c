import { describe, expect, it } from "vitest";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { cleanRun } from "../../../src/run/clean.ts";
import { claimPath } from "../../../src/run/directory/layout.ts";
import { type MemoryRuns, memoryRuns, willing } from "../memory-runs.ts";
import { changedStorage, errorOf, pathsOf, rowsOf } from "../run-fixture.ts";
import { refusing, responseOf, scriptedEngine } from "../scripted-engine.ts";
import {
  carriedOut,
  filesOf,
  preparedRun,
  putText,
  retried,
  scratchFolder,
  textOf,
} from "../whole-run.ts";

const shards = { shard: { rows: 4 } };
const outputs = ["/runs/out", "/runs/all.jsonl"];

const firstOf = (...rows: number[]) => rows.map((id) => [id, `first ${id}`]);

describe.each(outputs)("a retry of %s", (path) => {
  const start = async (failed: readonly number[] = [1, 2, 9]) => {
    const runs = memoryRuns(rowsOf(10), { ...shards, output: { path } });
    await runs.run(refusing(failed, "first"));
    return runs;
  };

  it("puts successes in their places, and asks nothing else", async () => {
    const runs = await start();
    const engine = refusing([], "second");
    const result = await runs.retry(engine);
    expect(engine.asked.toSorted()).toEqual([1, 2, 9]);
    expect(await runs.answers()).toEqual([
      ...firstOf(0),
      [1, "second 1"],
      [2, "second 2"],
      ...firstOf(3, 4, 5, 6, 7, 8),
      [9, "second 9"],
    ]);
    expect(await runs.letters()).toEqual([]);
    expect(result).toMatchObject({
      exitCode: 0,
      summary: {
        ...{ status: "SUCCESS", rows: { total: 10, answered: 10, failed: 0 }, errors: {} },
        ...{ request_count: 10, response_count: 10 },
      },
    });
    expect(await runs.damages()).toEqual([]);
  });

  it("keeps one dead letter of a row that fails again, the newer", async () => {
    const runs = await start();
    const result = await runs.retry(refusing([2], "second"));
    expect(await runs.letters()).toMatchObject([
      { index: 2, message: expect.stringContaining("second") as unknown },
    ]);
    expect(result).toMatchObject({ exitCode: 1, summary: { rows: { answered: 9, failed: 1 } } });
    expect(await runs.damages()).toEqual([]);
  });

  it("can be repeated until nothing is left, each time a generation of its own", async () => {
    const runs = await start();
    await runs.retry(refusing([2, 9], "second"));
    await runs.retry(refusing([9], "third"));
    const fourth = await runs.retry(refusing([], "fourth"));
    expect(fourth?.summary.rows).toMatchObject({ answered: 10, failed: 0 });
    expect((await runs.results()).map(({ answer }) => answer).join()).toBe(
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        .map((row) => `${{ 1: "second", 2: "third", 9: "fourth" }[row] ?? "first"} ${row}`)
        .join(),
    );
    expect(await runs.damages()).toEqual([]);
    expect(await runs.retry()).toBeUndefined();
    const { directory } = runs.location();
    expect(await pathsOf(runs.store(directory), "_manifest")).toEqual([
      "_manifest.g2.json",
      "_manifest.g3.json",
      "_manifest.g4.json",
      "_manifest.json",
    ]);
  });

  it("never edits the first generation", async () => {
    const runs = await start();
    const store = runs.store(runs.location().directory);
    const first = async () => {
      const paths = await pathsOf(store, "_");
      const kept = paths.filter((it) => /^_manifest\.json$|commits|plan\.json|\/g1\//.test(it));
      return Promise.all(
        kept
          .filter((it) => !/\.g2\.json$|generations/.test(it))
          .map(async (it) => [it, Buffer.from(await store.read(it)).toString()]),
      );
    };
    const before = await first();
    await runs.retry(refusing([], "second"));
    expect(await first()).toEqual(before);
  });

  it("leaves no claims behind, as joining workers make them", async () => {
    const runs = await start();
    const storage = runs.store(runs.location().directory);
    const [commit] = await pathsOf(storage, "_sluice/commits/");
    const runId = commit!.split(".")[1]!;
    const claim = claimPath(0, 1, { runId, generation: 2 });
    await storage.replace(claim, Buffer.from("{}"));
    await runs.retry();
    expect(await storage.stat(claim)).toBeUndefined();
  });

  it("that was stopped goes on, and asks nothing twice", async () => {
    const runs = await start();
    const stop = scriptedEngine(1, ({ index }) =>
      index === 9 ? new SluiceError("AUTHENTICATION_FAILED") : responseOf("second"),
    );
    const stopped = await runs.retry(stop);
    expect(stopped?.error?.code).toBe("AUTHENTICATION_FAILED");
    expect(await runs.answers()).toEqual(firstOf(0, 3, 4, 5, 6, 7, 8));
    const engine = willing();
    const { summary } = (await runs.retry(engine))!;
    expect(engine.asked).toEqual([9]);
    expect(summary.rows.answered).toBe(10);
    expect(await runs.damages()).toEqual([]);
  });

  it("that was stopped at any write of its seal is sealed by the same command", async () => {
    for (let at = 0; ; at++) {
      const runs = await start();
      let [isSealing, writes] = [false, 0];
      const count = () => {
        if (isSealing && writes++ === at) throw new SluiceError("STORE_FULL");
      };
      const dependencies = runs.dependenciesOf((location) =>
        changedStorage(runs.store(location), (inner) => ({
          async replace(to, data) {
            if (!/workers|heartbeat/.test(to)) count();
            await inner.replace(to, data);
          },
          async createIfAbsent(to, data) {
            if (to.startsWith("_manifest")) count();
            const outcome = await inner.createIfAbsent(to, data);
            const commits = await pathsOf(inner, "_sluice/commits/");
            isSealing ||= commits.filter((it) => it.endsWith(".g2.json")).length === 2;
            return outcome;
          },
          async publish(from, to) {
            count();
            await inner.publish(from, to);
          },
          async remove(to) {
            count();
            await inner.remove(to);
          },
          async writer(to) {
            count();
            const writer = await inner.writer(to);
            return {
              ...writer,
              close: async () => {
                count();
                await writer.close();
              },
            };
          },
        })),
      );
      await runs.retry(refusing([2], "second"), "failed", dependencies).catch(() => {});
      if (writes <= at) {
        expect(at).toBeGreaterThan(3);
        break;
      }
      const engine = willing();
      await runs.retry(engine).catch((error: SluiceError) => {
        throw new Error(`write ${at}: ${error.message}`);
      });
      const answers = await runs.answers();
      expect(answers[1]).toEqual([1, "second 1"]);
      expect(answers.at(-1)).toEqual([9, "second 9"]);
      expect(await runs.damages(), `write ${at}`).toEqual([]);
      expect(at).toBeLessThan(40);
    }
  });
});

describe("a retry of damaged results", () => {
  type Damage = (text: string) => string;
  const cutShort: Damage = (text) => text.slice(0, text.lastIndexOf("{"));
  const sameSize: Damage = (text) => text.replace("first", "other");

  /** Damages files of a sealed run, and tries to retry it. */
  async function refused(runs: MemoryRuns, where: Storage, damaged: RegExp, damage: Damage) {
    const { directory } = runs.location();
    for (const path of await pathsOf(where)) {
      if (!damaged.test(path)) continue;
      const text = Buffer.from(await where.read(path)).toString();
      await where.replace(path, Buffer.from(damage(text)));
    }
    const error = await errorOf(runs.retry());
    expect(error.code).toBe("RUN_DAMAGED");
    expect(error.place.file).toMatch(damaged);
    expect(await pathsOf(runs.store(directory), "_manifest.g2")).toEqual([]);
    // Nothing was merged, and what was answered counts once the file is restored.
    const drafts = await pathsOf(runs.store(directory), "_sluice/generations/2/");
    expect(drafts.filter((path) => /part-|merged/.test(path))).toEqual([]);
  }

  it.each([
    ["/runs/out", "the source of a part", cutShort],
    ["/runs/out", "the source of a part", sameSize],
    ["/runs/all.jsonl", "the source of a merged file", cutShort],
    ["/runs/all.jsonl", "the source of a merged file", sameSize],
    ["/runs/all.csv", "lines of a table", sameSize],
  ])("%s seals nothing: %s", async (path, _what, damage) => {
    const runs = memoryRuns(rowsOf(6), { ...shards, output: { path } });
    await runs.run(refusing([1, 5], "first"));
    const store = runs.store(runs.location().directory);
    await refused(runs, store, /attempts\/.*\/0\/.*\/part\.jsonl$/, damage);
  });

  it.each(outputs)("of %s seals nothing after a cleaning either", async (path) => {
    const runs = memoryRuns(rowsOf(6), { ...shards, output: { path } });
    await runs.run(refusing([1, 5], "first"));
    await cleanRun(runs.dependenciesOf(), runs.location(), false);
    const { directory, outside } = runs.location();
    const where = runs.store(path === "/runs/out" ? directory : outside);
    await refused(runs, where, /^(part-00000|all)\.jsonl$/, sameSize);
  });

  it("does not send rows if dead letters are damaged", async () => {
    const runs = memoryRuns(rowsOf(6), { ...shards, output: { path: "/runs/out" } });
    await runs.run(refusing([1, 5], "first"));
    const store = runs.store("/runs/out");
    const engine = willing();
    for (const path of await pathsOf(store, "_sluice/attempts/")) {
      if (!path.endsWith("dead-letters.jsonl")) continue;
      const text = Buffer.from(await store.read(path)).toString();
      await store.replace(path, Buffer.from(text.replace("first", "other")));
    }
    expect((await errorOf(runs.retry(engine))).code).toBe("RUN_DAMAGED");
    expect(engine.asked).toEqual([]);
  });

  it("refuses a part that is the same file as its source, as on a local disk", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const text = textOf(run, "part-00001.jsonl");
    putText(run, "part-00001.jsonl", text.slice(0, text.lastIndexOf("{")));
    const error = await errorOf(retried(run, "Say again {{ id }}"));
    expect(error.code).toBe("RUN_DAMAGED");
    expect(filesOf(run)).not.toContain("_manifest.g2.json");
  });
});

it("a retry of tables counts once where a coordinator comes back from the dead", async () => {
  const runs = memoryRuns(rowsOf(10), { ...shards, output: { path: "/runs/out", format: "csv" } });
  await runs.run(refusing([1, 2, 9], "first"));
  let isSealed = false;
  const dependencies = runs.dependenciesOf((location) =>
    changedStorage(runs.store(location), (inner) => ({
      async open(file) {
        const commits = await pathsOf(inner, "_sluice/commits/");
        const isMerging = commits.filter((it) => it.endsWith(".g2.json")).length === 2;
        if (isMerging && !isSealed && file.endsWith("/dead-letters.jsonl")) {
          isSealed = true;
          // Meanwhile another one takes the lead, merges, publishes and seals.
          await runs.retry();
        }
        return await inner.open(file);
      },
    })),
  );
  await runs.retry(refusing([2], "second"), "failed", dependencies).catch(() => {});
  expect(isSealed).toBe(true);
  expect((await runs.letters()).map(({ index }) => index)).toEqual([2]);
  expect(await runs.damages()).toEqual([]);
});

describe("the requests of a run after retries", () => {
  const steps = ["a", "b", "c"];
  const lists = [0, 1, 2, 3].map((id) => JSON.stringify({ id, steps }));
  const each = { prompt: "Say {{ item }}", forEach: "steps" };

  /** Refuses the last request of some rows. */
  const lacking = (...rows: number[]) =>
    scriptedEngine(2, ({ index, element }) =>
      rows.includes(index) && element === 2
        ? new SluiceError("REQUEST_REFUSED", "no")
        : responseOf("yes"),
    );

  it("count each row once, as it stands", async () => {
    const runs = memoryRuns(lists, { shard: { rows: 2 }, prompt: each });
    const counts: unknown[] = [];
    const note = async ({ summary }: { summary: object } | undefined = { summary: {} }) => {
      const { request_count, response_count } = summary as Record<string, unknown>;
      counts.push([request_count, response_count]);
      expect(await runs.damages()).toEqual([]);
    };
    await note(await runs.run(lacking(0, 1, 3)));
    for (const rows of [[0, 1, 3], [0, 3], [0], []]) await note(await runs.retry(lacking(...rows)));
    expect(counts).toEqual([
      [12, 9],
      [12, 9],
      [12, 10],
      [12, 11],
      [12, 12],
    ]);
  });

  it("stay the same when cut answers are replaced, and when they are not", async () => {
    const runs = memoryRuns(lists, { prompt: each });
    const cut = scriptedEngine(2, () => responseOf("begun", "length"));
    await runs.run(cut);
    for (const engine of [lacking(0, 2), lacking(0), lacking()]) {
      const { summary } = (await runs.retry(engine, "finish_reason=length"))!;
      expect(summary).toMatchObject({ request_count: 12, response_count: 12 });
      expect(await runs.damages()).toEqual([]);
    }
  });
});
