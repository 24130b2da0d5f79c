import { describe, expect, it } from "vitest";
import { sleep } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { Coordinator } from "../../src/run/coordinate/coordinator.ts";
import { memoryRuns, willing } from "./memory-runs.ts";
import { changedStorage, errorOf, pathsOf, rowsOf } from "./run-fixture.ts";
import { responseOf, scriptedEngine } from "./scripted-engine.ts";

const shards = { shard: { rows: 4 } };
const keyRefused = () => new SluiceError("AUTHENTICATION_FAILED");

describe("a fresh run", () => {
  it("answers every row in input order, seals, and says so", async () => {
    const runs = memoryRuns(rowsOf(10), shards);
    const { summary, exitCode, wasSealed } = await runs.run();
    expect(await runs.results()).toEqual(
      rowsOf(10).map((_, id) => ({ id, text: `row ${id}`, answer: `answer ${id}` })),
    );
    expect(summary).toMatchObject({
      status: "SUCCESS",
      request_count: 10,
      response_count: 10,
      total_tokens_generated: 30,
      rows: { total: 10, answered: 10, failed: 0, resumed: 0 },
      errors: {},
      output: "/runs/out",
      manifest: "/runs/out/_manifest.json",
      sealed: true,
    });
    expect([exitCode, wasSealed]).toEqual([0, false]);
    expect(await runs.damages()).toEqual([]);
    const kinds = runs.events.map(({ type }) => type);
    expect(kinds.filter((type) => type === "task-end")).toHaveLength(3);
    expect(kinds.at(-1)).toBe("run-seal");
  });

  it("removes its journals, or keeps them where that is asked", async () => {
    for (const keepJournals of [false, true]) {
      const runs = memoryRuns(rowsOf(4), { keepJournals });
      await runs.run();
      const files = await pathsOf(runs.store("/runs/out"), "_sluice/attempts/");
      expect(files.some((path) => path.endsWith("/journal.jsonl"))).toBe(keepJournals);
    }
  });

  it("merges into one file, with its state beside it and no part to read twice", async () => {
    const runs = memoryRuns(rowsOf(10), { ...shards, output: { path: "/runs/all.jsonl" } });
    const { summary } = await runs.run();
    expect(summary.output).toBe("/runs/all.jsonl");
    expect((await runs.results()).map(({ id }) => id)).toEqual(rowsOf(10).map((_, id) => id));
    expect(await pathsOf(runs.store("/runs/all.jsonl.sluice"), "part-")).toEqual([]);
    expect(await runs.damages()).toEqual([]);
  });

  it("exits with 1 for a failed row, and with 0 where so many are allowed", async () => {
    const rows = [...rowsOf(3), '{"other":1}'];
    const strict = await memoryRuns(rows).run();
    expect([strict.exitCode, strict.summary.status, strict.summary.sealed]).toEqual([
      1,
      "FAILED",
      true,
    ]);
    expect(strict.summary.errors).toEqual({ VARIABLE_MISSING: 1 });
    const lenient = await memoryRuns(rows, { maxFailedRows: 0.25 }).run();
    expect([lenient.exitCode, lenient.summary.status]).toEqual([0, "SUCCESS"]);
  });

  it("names ids that stand on two rows", async () => {
    const rows = ['{"id":1,"text":"a"}', '{"id":2,"text":"b"}', '{"id":1,"text":"c"}'];
    const runs = memoryRuns(rows, { shard: { rows: 1 } });
    await runs.run(willing(), runs.job({ input: { path: runs.input, id: "id" } }));
    const [manifest] = [JSON.parse(await runs.text("_manifest.json"))];
    expect(manifest.duplicateIds).toEqual({ count: 1, examples: [{ rows: [0, 2] }] });
    const message = expect.stringContaining("1 row repeats the id") as unknown;
    expect(runs.events).toContainEqual({ type: "notice", message });
  });

  it("of an empty input is sealed at once", async () => {
    const runs = memoryRuns([]);
    const { summary, exitCode } = await runs.run();
    expect([summary.rows.total, summary.sealed, exitCode]).toEqual([0, true, 0]);
    expect(runs.events).toContainEqual({ type: "notice", message: "the input holds no row" });
    expect(await runs.damages()).toEqual([]);
  });
});

describe("the same job again", () => {
  it("does nothing where the run is sealed, and repeats its code", async () => {
    const runs = memoryRuns([...rowsOf(3), "{broken"]);
    await runs.run();
    const engine = willing();
    const dependencies = runs.dependenciesOf((directory) =>
      changedStorage(runs.store(directory), (inner) => ({
        async read(path) {
          await sleep(runs.clock, 1000);
          return await inner.read(path);
        },
      })),
    );
    const again = await runs.run(engine, undefined, { dependencies });
    const { summary, exitCode, wasSealed } = again;
    expect(summary.run_time_sec).toBeGreaterThan(0);
    expect([exitCode, wasSealed, engine.asked]).toEqual([1, true, []]);
    expect(summary.rows).toEqual({ total: 4, answered: 3, failed: 1, resumed: 4 });
    expect([summary.tokens_per_sec, summary.total_tokens_generated]).toEqual([0, 9]);
  });

  it("goes on where it was stopped, and asks nothing twice", async () => {
    const runs = memoryRuns(rowsOf(12), shards);
    const first = scriptedEngine(1, ({ index }) => (index === 6 ? keyRefused() : responseOf("1")));
    const stopped = await runs.run(first);
    expect(stopped).toMatchObject({ error: { code: "AUTHENTICATION_FAILED" }, exitCode: 69 });
    expect(stopped.summary).toMatchObject({
      status: "FAILED",
      sealed: false,
      manifest: null,
      rows: { total: 12, answered: 6 },
    });
    const second = scriptedEngine(1, () => responseOf("2"));
    const { summary } = await runs.run(second);
    expect(second.asked).toEqual([6, 7, 8, 9, 10, 11]);
    expect(summary.rows).toMatchObject({ answered: 12, resumed: 6 });
    expect((await runs.results()).map(({ answer }) => answer).join("")).toBe("111111222222");
    expect(await runs.damages()).toEqual([]);
  });

  it("asks in the way that is wanted now", async () => {
    const runs = memoryRuns(rowsOf(1));
    await runs.run(scriptedEngine(1, keyRefused));
    const busy = scriptedEngine(1, () => new SluiceError("SERVER_ERROR"));
    await runs.run(busy, runs.job({ retries: { maxAttempts: 2 } }));
    expect(busy.asked).toEqual([0, 0]);
  });

  it("seals where only the seal was missing", async () => {
    const runs = memoryRuns(rowsOf(4));
    await runs.run();
    const store = runs.store("/runs/out");
    for (const path of await pathsOf(store, "_sluice/seals/")) await store.remove(path);
    await store.remove("_SUCCESS");
    const engine = willing();
    const { summary } = await runs.run(engine);
    expect([summary.sealed, engine.asked]).toEqual([true, []]);
    expect(await runs.damages()).toEqual([]);
  });

  it("stops by its budget of failed rows, and goes on when that is raised", async () => {
    const rows = ["{1", "{2", "{3", ...rowsOf(5)];
    const runs = memoryRuns(rows, { shard: { rows: 1 }, maxFailedRows: 1 });
    const { error, exitCode, summary } = await runs.run();
    expect([error?.code, exitCode, summary.sealed]).toEqual(["TOO_MANY_FAILED_ROWS", 1, false]);
    const again = await runs.run(willing(), runs.job({ maxFailedRows: 3 }));
    expect([again.exitCode, again.summary.sealed]).toEqual([0, true]);
  });

  it("is refused while another process is at it", async () => {
    const runs = memoryRuns(rowsOf(2));
    await runs.run(scriptedEngine(1, keyRefused));
    const { clock } = runs;
    const { processes } = runs.dependenciesOf();
    const storage = runs.store("/runs/out");
    await Coordinator.lead({ storage, clock, processes, id: "other", job: runs.job() });
    const dependencies = runs.dependenciesOf();
    const living = { ...dependencies.processes, look: () => "alive" as const };
    const error = await errorOf(
      runs.run(willing(), runs.job(), { dependencies: { ...dependencies, processes: living } }),
    );
    expect(error.code).toBe("COORDINATOR_LIVES");
  });
});

describe("a run that is stopped", () => {
  it("by a signal says that it was canceled, and what is done", async () => {
    const runs = memoryRuns(rowsOf(8));
    const stop = new AbortController();
    const engine = scriptedEngine(1, ({ index }) => {
      if (index === 3) stop.abort();
      return responseOf("yes");
    });
    const { summary, error, exitCode } = await runs.run(engine, runs.job(), {
      signal: stop.signal,
    });
    expect([summary.status, error?.code, exitCode]).toEqual(["CANCELED", "RUN_CANCELED", 75]);
    const again = await runs.run();
    expect(again.summary.rows.resumed).toBe(summary.rows.answered);
    expect(again.summary.rows.answered).toBe(8);
  });

  it("by the loss of its leadership does not seal", async () => {
    const runs = memoryRuns(rowsOf(4));
    const storage = runs.store("/runs/out");
    const dependencies = runs.dependenciesOf((location) =>
      changedStorage(runs.store(location), (inner) => ({
        async replace(path, data) {
          // Somebody else takes over while the run is being sealed.
          if (path === "part-00000.jsonl") return;
          await inner.replace(path, data);
        },
        async publish(from, to) {
          await inner.publish(from, to);
          if (!to.startsWith("part-")) return;
          const { clock } = runs;
          const { processes } = runs.dependenciesOf();
          await Coordinator.lead({ storage, clock, processes, id: "other", job: runs.job() });
        },
      })),
    );
    const error = await errorOf(runs.run(willing(), runs.job(), { dependencies }));
    expect(error.code).toBe("COORDINATOR_LOST");
    expect(await pathsOf(storage, "_SUCCESS")).toEqual([]);
    expect(await pathsOf(storage, "_manifest")).toEqual([]);
  });

  it("at any write of its seal is sealed by the same command", async () => {
    for (const path of ["/runs/out", "/runs/all.jsonl"]) {
      for (let at = 0; ; at++) {
        const runs = memoryRuns(["{broken", ...rowsOf(3)], { output: { path }, maxFailedRows: 1 });
        const isWhole = await runWithFailure(runs, at);
        const { summary } = await runs.run();
        expect(summary.rows).toMatchObject({ answered: 3, failed: 1 });
        expect(await runs.damages()).toEqual([]);
        expect((await runs.results()).map(({ id }) => id)).toEqual([0, 1, 2]);
        if (isWhole) break;
        expect(at).toBeLessThan(20);
      }
    }
  });
});

/** Runs the job; write number `at` after the commit fails. True where there were not so many. */
async function runWithFailure(runs: ReturnType<typeof memoryRuns>, at: number): Promise<boolean> {
  let isSealing = false;
  let writes = 0;
  const count = () => {
    if (isSealing && writes++ === at) throw new SluiceError("STORE_FULL");
  };
  const dependencies = runs.dependenciesOf((location) =>
    changedStorage(runs.store(location), (inner) => ({
      async createIfAbsent(path, data) {
        const outcome = await inner.createIfAbsent(path, data);
        if (path.startsWith("_sluice/commits/")) isSealing = true;
        return outcome;
      },
      async replace(path, data) {
        if (!/workers|heartbeat/.test(path)) count();
        await inner.replace(path, data);
      },
      async publish(from, to) {
        count();
        await inner.publish(from, to);
      },
      async remove(path) {
        count();
        await inner.remove(path);
      },
      async writer(path) {
        count();
        return inner.writer(path);
      },
    })),
  );
  await runs.run(willing(), runs.job(), { dependencies }).catch(() => {});
  return writes <= at;
}
