import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { RefusedStart } from "../../../src/run/dispatch/dispatch.ts";
import { dispatching, untilStarted } from "../dispatching.ts";
import { settled } from "../scripted-engine.ts";

const noticesOf = ({ events }: Pick<ReturnType<typeof dispatching>, "events">) =>
  events.flatMap((event) => (event.type === "notice" ? event.message : []));

describe("a start that is refused for now", () => {
  it("is tried again until there is room, and said once", async () => {
    const full = { refused: "no GPU is free" };
    const run = dispatching(1, {}, [full, full, full, full, full, full]);
    await untilStarted(run, 1);
    expect(noticesOf(run)).toEqual(["a worker has to wait for room: no GPU is free"]);
    await run.worker(0).ready();
    await run.worker(0).end(0);
    await run.worker(0).die();
    expect((await run.ended).error).toBeUndefined();
  });

  it("waits as long as the backend says", async () => {
    const run = dispatching(1, {}, [{ refused: "full", retryAfterMs: 30_000 }]);
    await settled();
    await run.pass(29_000);
    expect(run.workers).toHaveLength(0);
    await run.pass(1500);
    expect(run.workers).toHaveLength(1);
  });

  it("keeps no run from working with the workers that it has, nor from ending", async () => {
    const hour = { refused: "full", retryAfterMs: 3_600_000 };
    const run = dispatching(2, { workers: 3 }, [hour]);
    await settled();
    expect(run.workers.map(({ slot }) => slot)).toEqual([1]);
    await run.worker(0).ready();
    await run.worker(0).end(0);
    await run.worker(0).end(1);
    await run.worker(0).die();
    expect(await run.ended).toMatchObject({ committed: 2 });
  });

  it("ends at once with a run that is stopped", async () => {
    const run = dispatching(1, {}, [{ refused: "full" }]);
    await settled();
    run.stop.abort();
    expect((await run.ended).error?.code).toBe("RUN_CANCELED");
    expect(run.workers).toEqual([]);
  });
});

describe("a worker whose place goes away with notice", () => {
  it("gets no further task, and what it leaves goes to others at once", async () => {
    const run = dispatching(4, { workers: 2 });
    await settled();
    const [first, second] = [run.worker(0), run.worker(1)];
    await first.ready(20);
    await second.ready(20);
    expect([first.tasks(), second.tasks()]).toEqual([
      [0, 1],
      [2, 3],
    ]);
    await first.drain(45_000);
    expect(first.heard.at(-1)).toEqual({ type: "worker-stop", graceMs: 45_000 });
    await first.end(0);
    await second.end(2);
    await first.end(1, { outcome: "canceled", done: 3 });
    expect(first.tasks()).toEqual([0, 1]);
    expect(second.tasks()).toEqual([2, 3, 1]);
    expect(noticesOf(run)).toEqual([
      "worker w0 leaves, and others take its tasks: the node goes away",
    ]);
  });

  it("is replaced, and nothing counts against its tasks, however often that happens", async () => {
    const run = dispatching(1, { maxTaskRetries: 0 });
    for (let time = 0; time < 8; time++) {
      await settled();
      const worker = run.worker(time);
      expect(worker.slot).toBe(0);
      await worker.ready();
      await worker.start(0);
      await worker.drain();
      if (time % 2 === 0) await worker.end(0, { outcome: "canceled", done: 0 });
      await worker.die("its node is gone");
    }
    const last = run.worker(8);
    await last.ready();
    // The attempt before this one was cut off: no row of it is to blame.
    expect(last.heard).toEqual([{ type: "task-run", task: 0, spared: "a7" }]);
    await last.end(0);
    await last.die();
    expect(await run.ended).toMatchObject({ committed: 1 });
    expect(run.events.filter((it) => it.type === "worker-end" && it.error)).toEqual([]);
  });

  it("may have asked for that itself, and once more with less time", async () => {
    const run = dispatching(2, { workers: 1 });
    await settled();
    const first = run.worker(0);
    await first.ready();
    const leave = async (graceMs: number) => {
      first.channel.send({ type: "worker-leave", graceMs });
      await settled();
    };
    await leave(2 ** 31 - 1);
    expect(first.heard.at(-1)).toEqual({ type: "worker-stop", graceMs: 2 ** 31 - 1 });
    await leave(0);
    expect(first.heard.at(-1)).toEqual({ type: "worker-stop", graceMs: 0 });
    await first.end(0, { outcome: "canceled", done: 0 });
    await first.die();
    await settled();
    await run.worker(1).ready();
    expect(run.worker(1).tasks()).toEqual([0]);
    expect(noticesOf(run)).toEqual([
      "worker w0 leaves, and others take its tasks: somebody deleted it",
    ]);
  });

  it("does not count as a start that failed if it had not got ready", async () => {
    const run = dispatching(1);
    for (let time = 0; time < 5; time++) {
      await settled();
      await run.worker(time).drain(0);
      await run.pass(1);
      expect(run.worker(time).isKilled).toBe(true);
    }
    await settled();
    expect(run.workers).toHaveLength(6);
    expect(run.state.isOver).toBe(false);
  });

  it("may be silent while it answers, and is ended once its time is over", async () => {
    const run = dispatching(1, { maxSilenceMs: 1000 });
    await settled();
    await run.worker(0).ready();
    await run.worker(0).drain(30_000);
    await run.pass(59_000);
    expect(run.worker(0).isKilled).toBe(false);
    await run.pass(2000);
    expect(run.worker(0).isKilled).toBe(true);
    expect(run.workers).toHaveLength(2);
  });

  it("counts a task that fails under it as a failure all the same", async () => {
    const run = dispatching(1, { maxTaskRetries: 0 });
    await settled();
    await run.worker(0).ready();
    await run.worker(0).drain();
    const error = new SluiceError("STORE_FAILED").toJSON();
    await run.worker(0).end(0, { outcome: "failed", error, done: 0 });
    await run.worker(0).die();
    expect((await run.ended).error?.code).toBe("TASK_FAILED");
  });
});

describe("a worker whose machine is gone", () => {
  it("is replaced, and its rows are not to blame", async () => {
    const run = dispatching(1);
    await settled();
    await run.worker(0).ready();
    await run.worker(0).start(0);
    await run.worker(0).asking(0, "0-9", true);
    await run.worker(0).lose("its node cannot be reached");
    await untilStarted(run, 2);
    await run.worker(1).ready();
    expect(run.worker(1).heard).toEqual([{ type: "task-run", task: 0, spared: "a0" }]);
    const ends = run.events.filter(({ type }) => type === "worker-end");
    expect(ends).toEqual([expect.objectContaining({ worker: "w0" })]);
    expect(JSON.stringify(ends)).toContain("its node cannot be reached");
  });

  it("ends the run if that goes on without any progress", async () => {
    const run = dispatching(1, { maxTaskRetries: 1 });
    for (let time = 0; time < 2; time++) {
      await untilStarted(run, time + 1);
      await run.worker(time).ready();
      await run.worker(time).start(0);
      await run.worker(time).lose("gone");
    }
    expect((await run.ended).error?.code).toBe("TASK_FAILED");
  });
});

describe("a pool that lets idle workers go", () => {
  it("ends those without a task, and starts one again if a task comes back", async () => {
    const run = dispatching(2, { workers: 2, releasesIdle: true });
    await settled();
    await run.worker(0).ready();
    await run.worker(1).ready();
    await run.worker(0).end(0);
    expect(run.worker(0).heard.at(-1)?.type).toBe("worker-stop");
    expect(run.worker(1).heard.map(({ type }) => type)).toEqual(["task-run"]);
    await run.worker(0).die();
    // That is how it should be, so nobody is told.
    expect(noticesOf(run)).toEqual([]);
    await run.worker(1).lose("gone");
    await untilStarted(run, 3);
    await run.worker(2).ready();
    expect(run.worker(2).tasks()).toEqual([1]);
    await run.worker(2).end(1);
    await run.worker(2).die();
    expect(await run.ended).toMatchObject({ committed: 2 });
    expect(run.workers).toHaveLength(3);
  });

  it("gives up starts that wait for room, at the tail and at the end", async () => {
    const unwanted: AbortSignal[] = [];
    const waiting = (index: number, signal: AbortSignal) => {
      unwanted[index] = signal;
      return new Promise<RefusedStart>((resolve) => {
        signal.addEventListener("abort", () => resolve({ refused: "not needed" }));
      });
    };
    const run = dispatching(1, { workers: 1, releasesIdle: true, startWorker: waiting });
    await settled();
    expect(unwanted.map(({ aborted }) => aborted)).toEqual([false]);
    run.stop.abort();
    expect((await run.ended).error?.code).toBe("RUN_CANCELED");
    expect(unwanted.map(({ aborted }) => aborted)).toEqual([true]);
  });
});

describe("a worker that prepares its machine", () => {
  it("has its time anew after each beat, and says what it does", async () => {
    const run = dispatching(1, { readyTimeoutMs: 1000 });
    await settled();
    for (let time = 0; time < 5; time++) {
      await run.pass(900);
      await run.worker(0).beat("n1: fetching a model");
    }
    expect(run.worker(0).isKilled).toBe(false);
    expect(noticesOf(run)).toEqual(["n1: fetching a model"]);
    await run.pass(1100);
    expect(run.worker(0).isKilled).toBe(true);
  });
});
