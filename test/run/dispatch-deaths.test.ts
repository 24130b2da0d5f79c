import { describe, expect, it } from "vitest";
import { limits } from "../../src/foundation/limits.ts";
import { dispatching, untilStarted } from "./dispatching.ts";
import { settled } from "./scripted-engine.ts";

describe("a worker that dies", () => {
  it("is replaced, and its task goes on with the rows it had under suspicion", async () => {
    const run = dispatching(1);
    await settled();
    await run.worker(0).ready(4);
    await run.worker(0).start(0);
    await run.worker(0).asking(0, "0-4");
    await run.worker(0).asking(0, "1,4", true);
    await run.worker(0).asking(0, "5-6");
    await run.worker(0).die();
    expect(run.events.at(-1)).toMatchObject({
      type: "worker-end",
      error: { code: "ENGINE_DIED", message: expect.stringContaining("killed") as unknown },
    });
    await untilStarted(run, 2);
    await run.worker(1).ready(4);
    const suspects = { attempt: "a0", rows: "1,4-6", together: 2 };
    expect(run.worker(1).heard).toEqual([{ type: "task-run", task: 0, suspects }]);
  });

  it("has no row suspected of a task of which it asked none", async () => {
    const run = dispatching(2);
    await settled();
    await run.worker(0).ready(100);
    await run.worker(0).start(0);
    await run.worker(0).start(1);
    await run.worker(0).asking(0, "3");
    await run.worker(0).die();
    await untilStarted(run, 2);
    await run.worker(1).ready(100);
    expect(run.worker(1).heard).toContainEqual({ type: "task-run", task: 1 });
    expect(run.worker(1).heard).toContainEqual({
      type: "task-run",
      task: 0,
      suspects: { attempt: "a0", rows: "3", together: 50 },
    });
  });

  it("leaves its tasks to a worker that has nothing to do", async () => {
    const { worker } = dispatching(2, { workers: 2 });
    await settled();
    await worker(0).ready();
    await worker(1).ready();
    await worker(0).end(0);
    await worker(1).die();
    expect(worker(0).tasks()).toEqual([0, 1]);
  });

  it("is replaced later each time, while nothing gets on", async () => {
    const run = dispatching(1, { maxTaskRetries: 100 });
    const pauses: number[] = [];
    await settled();
    for (let death = 0; death < 12; death++) {
      await run.worker(death).ready();
      await run.worker(death).die();
      const before = run.clock.monotonic();
      await untilStarted(run, death + 2);
      pauses.push(run.clock.monotonic() - before);
    }
    expect(Math.max(...pauses.slice(0, 3))).toBeLessThan(1000);
    expect(Math.max(...pauses.slice(6))).toBeGreaterThan(1000);
  });

  it("is replaced soon, however many died before the last task was committed", async () => {
    const run = dispatching(12, { maxTaskRetries: 100 });
    await settled();
    const before = run.clock.monotonic();
    for (let death = 0; death < 11; death++) {
      await run.worker(death).ready();
      await run.worker(death).end(death);
      await run.worker(death).die();
      await untilStarted(run, death + 2);
    }
    expect(run.clock.monotonic() - before).toBeLessThan(1100);
  });

  it("ends the run when its task got nowhere in all its tries", async () => {
    const run = dispatching(1, { maxTaskRetries: 1 });
    await settled();
    let tries = 0;
    for (; !run.state.isOver && tries < 50; tries++) {
      await run.worker(tries).ready(8);
      await run.worker(tries).start(0);
      await run.worker(tries).asking(0, "0-7");
      await run.worker(tries).die("out of memory");
      if (!run.state.isOver) await untilStarted(run, tries + 2).catch(() => {});
      await settled();
    }
    // One retry, the halvings of eight rows, and as many deaths as a row may cause.
    expect(tries).toBe(1 + 1 + 4 + limits.maxRowKills);
    const { error } = await run.ended;
    expect(error).toMatchObject({ code: "TASK_FAILED" });
    expect(error?.message).toContain("out of memory");
  });

  it("ends the run where tries find what is on file again, and nothing more", async () => {
    const run = dispatching(1, { maxTaskRetries: 2 });
    await settled();
    let tries = 0;
    for (; !run.state.isOver && tries < 20; tries++) {
      await run.worker(tries).ready();
      // Every other one dies before it has read the journal.
      if (tries % 2 === 0) await run.worker(tries).start(0, 5);
      await run.worker(tries).die();
      if (!run.state.isOver) await untilStarted(run, tries + 2).catch(() => {});
    }
    expect(tries).toBe(1 + 2 + 1);
    expect((await run.ended).error).toMatchObject({ code: "TASK_FAILED" });
  });

  it("may die as often as it likes while its task gets on", async () => {
    const run = dispatching(1, { maxTaskRetries: 0 });
    await settled();
    for (let death = 0; death < 20; death++) {
      await run.worker(death).ready();
      await run.worker(death).start(0, death + 1);
      await run.worker(death).die();
      await untilStarted(run, death + 2);
    }
    expect(run.state.isOver).toBe(false);
  });

  it("costs no other task its tries while one of its tasks gets on", async () => {
    const run = dispatching(2, { maxTaskRetries: 0 });
    await settled();
    for (let death = 0; death < 20; death++) {
      await run.worker(death).ready(100);
      expect(run.worker(death).tasks().toSorted()).toEqual([0, 1]);
      await run.worker(death).progress(1, { done: death + 1 });
      await run.worker(death).die();
      await untilStarted(run, death + 2);
    }
    expect(run.state.isOver).toBe(false);
  });

  it("before it is ready ends the run after a few starts in a row, with the cause", async () => {
    const run = dispatching(1);
    await settled();
    for (let start = 0; start < limits.maxEngineStarts; start++) {
      await run.worker(start).die("left with code 1: no such file");
      if (start + 1 < limits.maxEngineStarts) await untilStarted(run, start + 2);
    }
    const { error } = await run.ended;
    expect(error).toMatchObject({ code: "ENGINE_START_FAILED" });
    expect(error?.message).toContain("no such file");
  });

  it("now and then before it is ready does not end the run", async () => {
    const run = dispatching(1, { maxTaskRetries: 100 });
    await settled();
    for (let round = 0; round < 2 * limits.maxEngineStarts; round += 2) {
      await run.worker(round).die();
      await untilStarted(run, round + 2);
      await run.worker(round + 1).ready();
      await run.worker(round + 1).die();
      await untilStarted(run, round + 3);
    }
    expect(run.state.isOver).toBe(false);
  });

  it("is killed when it does not get ready", async () => {
    const { clock, worker } = dispatching(1);
    await settled();
    const wait = new Promise<void>((resolve) => {
      clock.schedule(limits.workerReadyTimeoutMs + 1, resolve);
    });
    await clock.run(wait);
    expect(worker(0).isKilled).toBe(true);
  });

  it("may take longer to get ready where its engine does", async () => {
    const readyTimeoutMs = 3 * limits.workerReadyTimeoutMs;
    const { clock, worker } = dispatching(1, { readyTimeoutMs });
    await settled();
    const wait = (delayMs: number) => new Promise<void>((done) => clock.schedule(delayMs, done));
    await clock.run(wait(readyTimeoutMs - 1));
    expect(worker(0).isKilled).toBe(false);
    await clock.run(wait(2));
    expect(worker(0).isKilled).toBe(true);
  });

  it("ends the run soon where no row was asked", async () => {
    const run = dispatching(1, { maxTaskRetries: 1 });
    await settled();
    for (const number of [0, 1]) {
      await run.worker(number).ready(8);
      await run.worker(number).die();
      await settled();
      if (number === 0) await untilStarted(run, 2);
    }
    expect((await run.ended).error).toMatchObject({ code: "TASK_FAILED" });
  });

  it("is killed when it talks no more and stays", async () => {
    const { clock, worker, events } = dispatching(1);
    await settled();
    await worker(0).ready();
    worker(0).channel.close();
    const wait = new Promise<void>((resolve) => {
      clock.schedule(limits.stopGraceMs * 2 + 1, resolve);
    });
    await clock.run(wait);
    expect(worker(0).isKilled).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: "worker-end" });
  });
});
