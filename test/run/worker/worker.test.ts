import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { channelPair, jsonLinesChannel } from "../../../src/foundation/channel.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { maxJournalBufferMs } from "../../../src/run/attempt/journal.ts";
import { attemptPaths } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import type { RunContext } from "../../../src/run/run-context.ts";
import type { FromWorker, ToWorker } from "../../../src/run/worker/protocol.ts";
import { Worker } from "../../../src/run/worker/worker.ts";
import {
  changedStorage,
  type PlannedRun,
  plannedRun,
  rowsOf,
  withContext,
} from "../run-fixture.ts";
import { responseOf, type ScriptedEngine, scriptedEngine, settled } from "../scripted-engine.ts";

const redact = (text: string) => text;

/** A worker at the end of a channel, and what it says. */
function started(run: PlannedRun, engine: ScriptedEngine, context: RunContext = run.context) {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const said: FromWorker[] = [];
  near.onMessage((message) => said.push(message));
  const promptSet = promptSetOf(run.plan.job, run.plan.seed);
  const worker = new Worker({ context, engine, redact, promptSet, channel: far, pid: 42 });
  worker.start();
  return {
    said,
    worker,
    channel: near,
    tell: async (message: ToWorker) => {
      near.send(message);
      await settled();
    },
    /** What it said of one kind. */
    of: <Type extends FromWorker["type"]>(type: Type) =>
      said.filter((it): it is Extract<FromWorker, { type: Type }> => it.type === type),
    pass: async (ms: number) => {
      await run.clock.run(sleep(run.clock, ms));
      await settled();
    },
  };
}

const runOf = (rows: number, perTask = rows) =>
  plannedRun(rowsOf(rows), { shard: { rows: perTask } });
const instant = () => scriptedEngine(4, ({ index }) => responseOf(`answer ${index}`));

describe("Worker", () => {
  it("says who it is, runs the task it is told, and says how it ended", async () => {
    const run = await runOf(3);
    const { said, tell } = started(run, instant());
    await tell({ type: "task-run", task: 0 });
    const kinds = said.filter(({ type }) => type !== "task-progress" && type !== "task-asking");
    expect(kinds).toEqual([
      {
        type: "worker-ready",
        worker: "worker-1",
        pid: 42,
        protocol: 1,
        capacity: 4,
        engine: "scripted",
        choices: {},
      },
      {
        type: "task-start",
        task: 0,
        attempt: expect.stringMatching(/^[0-9a-z]{15}$/) as unknown,
        rows: 3,
        resumed: 0,
        resumedUsage: { promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
      },
      {
        type: "task-end",
        task: 0,
        outcome: "committed",
        done: 3,
        failed: 0,
        usage: { promptTokens: 21, cachedTokens: 0, completionTokens: 9 },
        errors: {},
      },
    ]);
    expect(await run.lines("part-00000.jsonl")).toHaveLength(3);
  });

  it("says that a task was committed already, with its counts, and asks nothing", async () => {
    const run = await runOf(2);
    await started(run, instant()).tell({ type: "task-run", task: 0 });
    const engine = instant();
    const { tell, of } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    expect(of("task-end")).toMatchObject([{ outcome: "already-committed", done: 2 }]);
    expect(of("task-start")).toEqual([]);
    expect(engine.asked).toEqual([]);
  });

  it("reports what is new, twice a second at most, and at once when it has room", async () => {
    const run = await runOf(8, 4);
    const engine = scriptedEngine(2);
    const { tell, of, pass } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    await pass(limits.progressIntervalMs * 4 + 1);
    expect(of("task-progress")).toMatchObject([{ waiting: 2, inFlight: 2, done: 0 }]);
    expect(of("worker-beat")).toHaveLength(3);
    engine.held[0]!.answer();
    await settled();
    expect(of("task-progress")).toHaveLength(2);
    expect(of("task-progress").at(-1)).toMatchObject({ waiting: 1, inFlight: 2, done: 1 });
  });

  it("says what its engine can hold, whenever that has changed", async () => {
    const run = await runOf(8);
    const engine = scriptedEngine(2);
    const { tell, of, pass } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    await pass(limits.progressIntervalMs);
    Object.assign(engine, { capacity: 5 });
    await pass(limits.progressIntervalMs * 2 + 1);
    expect(of("worker-ready")).toMatchObject([{ capacity: 2 }]);
    expect(of("task-progress").map(({ capacity }) => capacity)).toEqual([undefined, 5, undefined]);
  });

  it("runs several tasks over one engine", async () => {
    const run = await runOf(4, 2);
    const engine = scriptedEngine(4);
    const { tell, of } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    await tell({ type: "task-run", task: 1 });
    expect(engine.asked).toEqual([0, 1, 2, 3]);
    engine.answerAll();
    await settled();
    expect(of("task-end").map(({ task, outcome }) => [task, outcome])).toEqual([
      [0, "committed"],
      [1, "committed"],
    ]);
  });

  it("gives a task back when it is told to, and goes on with the others", async () => {
    const run = await runOf(4, 2);
    const engine = scriptedEngine(2);
    const { tell, of } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    await tell({ type: "task-run", task: 1 });
    await tell({ type: "task-cancel", task: 0 });
    expect(of("task-end")).toMatchObject([{ task: 0, outcome: "canceled" }]);
    expect(engine.held.map(({ request }) => request.index)).toEqual([2, 3]);
    await tell({ type: "task-run", task: 0 });
    expect(of("task-start")).toHaveLength(3);
  });

  it("names why a task failed, and can take it again", async () => {
    const run = await runOf(2);
    let isBroken = true;
    const storage = changedStorage(run.storage, (inner) => ({
      async appender(path) {
        const appender = await inner.appender(path);
        const append = (data: Uint8Array) =>
          isBroken
            ? Promise.reject(new SluiceError("STORE_FAILED", "gone"))
            : appender.append(data);
        return { ...appender, append };
      },
    }));
    const { tell, of, pass } = started(run, instant(), withContext(run, { storage }));
    await tell({ type: "task-run", task: 0 });
    await pass(maxJournalBufferMs);
    expect(of("task-end")).toMatchObject([{ outcome: "failed", error: { code: "STORE_FAILED" } }]);
    isBroken = false;
    await tell({ type: "task-run", task: 0 });
    expect(of("task-end").at(-1)).toMatchObject({ outcome: "committed", done: 2 });
  });

  it("says which task is not there", async () => {
    const { tell, of } = started(await runOf(2), instant());
    await tell({ type: "task-run", task: 7 });
    expect(of("task-end")).toMatchObject([
      { task: 7, outcome: "failed", error: { code: "USAGE" } },
    ]);
  });

  it("tells of rows that were given up before it asks the next one", async () => {
    const run = await runOf(4);
    for (const attempt of ["a", "b", "c"]) {
      const { journal } = attemptPaths(0, run.plan, attempt);
      await run.storage.replace(journal, recordBytes({ index: 2, outcome: "asked", together: 1 }));
    }
    const { tell, of } = started(run, scriptedEngine(1));
    await tell({ type: "task-run", task: 0 });
    expect(of("task-progress")[0]).toMatchObject({ done: 1, failed: 1, inFlight: 0 });
  });

  it("asks suspects with care", async () => {
    const run = await runOf(4);
    const engine = scriptedEngine(4);
    const { tell } = started(run, engine);
    const suspects = { attempt: "dead", rows: "0-1", together: 4 };
    await tell({ type: "task-run", task: 0, suspects });
    expect(engine.asked).toEqual([0]);
  });

  it("says which rows it asks, and now and then which of them have not come back", async () => {
    const run = await runOf(6);
    const engine = scriptedEngine(3);
    const { tell, of, pass } = started(run, engine);
    const said = () => of("task-asking").map(({ rows, isAll }) => (isAll ? `all ${rows}` : rows));
    await tell({ type: "task-run", task: 0 });
    expect(said()).toEqual(["0", "1-2"]);
    engine.held[1]!.answer();
    await settled();
    expect(said()).toEqual(["0", "1-2", "3-5"]);
    await pass(limits.progressIntervalMs + 1);
    expect(said().at(-1)).toBe("all 0,2-5");
    engine.answerAll();
    await settled();
    await pass(limits.progressIntervalMs + 1);
    expect(said().at(-1)).toBe("all 4-5");
    // What came back is no suspect, though its journal may not say so yet.
    expect(engine.held.map(({ request }) => request.index)).toEqual([4, 5]);
  });

  it("says now and then that it lives while it has nothing to do", async () => {
    const { of, pass } = started(await runOf(1), instant());
    await pass(limits.progressIntervalMs * 3 + 1);
    expect(of("worker-beat")).toHaveLength(3);
  });

  it("says what its engine chose, anew at the end of a task where that has changed", async () => {
    const run = await runOf(3, 1);
    const engine = { ...instant(), choices: { found: 16 } };
    const { tell, of } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    engine.choices = { found: 32 };
    await tell({ type: "task-run", task: 1 });
    await tell({ type: "task-run", task: 2 });
    expect(of("worker-ready")[0]?.choices).toEqual({ found: 16 });
    expect(of("task-end").map(({ choices }) => choices)).toEqual([
      undefined,
      { found: 32 },
      undefined,
    ]);
  });

  it("ignores messages that it does not know, and says so once a kind", async () => {
    const run = await runOf(2);
    const lines: string[] = [];
    const logger = { log: (_level: string, message: string) => void lines.push(message) };
    const { tell, of } = started(run, instant(), withContext(run, { logger }));
    for (const type of ["task-hurry", "task-hurry", "row-skip"]) await tell({ type } as never);
    await tell({ type: "task-run", task: 0 });
    expect(of("task-end")).toMatchObject([{ outcome: "committed" }]);
    expect(lines).toEqual([
      expect.stringContaining("task-hurry") as unknown,
      expect.stringContaining("row-skip") as unknown,
    ]);
  });
});

describe("a worker that is to leave", () => {
  it("takes no more rows, waits for what was asked, and puts that on file", async () => {
    const run = await runOf(4);
    const engine = scriptedEngine(2);
    const { tell, of, worker } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    await tell({ type: "worker-stop", graceMs: 10_000 });
    expect(of("task-end")).toEqual([]);
    engine.answerAll();
    await worker.stopped;
    await settled();
    expect(of("task-end")).toMatchObject([{ outcome: "canceled", done: 2, failed: 0 }]);
    const again = started(run, instant());
    await again.tell({ type: "task-run", task: 0 });
    expect(again.of("task-start")).toMatchObject([{ resumed: 2 }]);
  });

  it("commits a task that its last answers complete", async () => {
    const run = await runOf(2);
    const engine = scriptedEngine(2);
    const { tell, of, worker } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    await tell({ type: "worker-stop", graceMs: 10_000 });
    engine.answerAll();
    await worker.stopped;
    await settled();
    expect(of("task-end")).toMatchObject([{ outcome: "committed" }]);
  });

  it("ends the engine when the grace is over", async () => {
    const run = await runOf(4);
    const engine = scriptedEngine(2);
    engine.close = async () => {
      for (const held of [...engine.held]) held.fail(new SluiceError("ENGINE_DIED"));
    };
    const { tell, worker } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    engine.held[0]!.answer();
    await settled();
    await tell({ type: "worker-stop", graceMs: 3000 });
    await run.clock.run(worker.stopped);
    expect(run.clock.monotonic()).toBeGreaterThanOrEqual(3000);
    const again = started(run, instant());
    await again.tell({ type: "task-run", task: 0 });
    expect(again.of("task-start")).toMatchObject([{ resumed: 1 }]);
  });

  it("blames no row at once: it may be ended while it waits for one", async () => {
    const run = await runOf(2);
    for (const attempt of ["a", "b"]) {
      const { journal } = attemptPaths(0, run.plan, attempt);
      await run.storage.replace(journal, recordBytes({ index: 1, outcome: "asked", together: 1 }));
    }
    const { tell } = started(run, scriptedEngine(2));
    await tell({ type: "task-run", task: 0 });
    await tell({ type: "worker-stop", graceMs: 10_000 });
    await run.clock.run(sleep(run.clock, maxJournalBufferMs + 1));
    // Ended here, with the row still at the engine.
    const again = started(run, instant());
    await again.tell({ type: "task-run", task: 0 });
    await again.pass(1);
    expect(again.of("task-end")).toMatchObject([{ outcome: "committed", failed: 0 }]);
  });

  it("does so as well when its channel closes", async () => {
    const run = await runOf(4);
    const engine = scriptedEngine(2);
    const { tell, worker, channel } = started(run, engine);
    await tell({ type: "task-run", task: 0 });
    channel.close();
    await settled();
    engine.answerAll();
    await worker.stopped;
    expect(await run.paths("_sluice/commits/")).toEqual([]);
    const [journal] = await run.paths("_sluice/attempts/");
    expect(await run.lines(journal!)).toHaveLength(2);
  });

  it("leaves and says why where a line that it gets is no message", async () => {
    const { context, plan } = await runOf(1);
    const input = new PassThrough();
    const channel = jsonLinesChannel<FromWorker, ToWorker>(input, new PassThrough());
    const promptSet = promptSetOf(plan.job, plan.seed);
    const worker = new Worker({ context, engine: instant(), redact, promptSet, channel, pid: 1 });
    worker.start();
    input.write('{"type":"task-ru\n');
    await worker.stopped;
    expect(worker.fault).toMatchObject({ code: "PROTOCOL" });
  });

  it("takes no task any more", async () => {
    const engine = instant();
    const { tell, of, worker } = started(await runOf(2), engine);
    await tell({ type: "worker-stop", graceMs: 1000 });
    await tell({ type: "task-run", task: 0 });
    await worker.stopped;
    expect([engine.asked, of("task-start")]).toEqual([[], []]);
  });
});
