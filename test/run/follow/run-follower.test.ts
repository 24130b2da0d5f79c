import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { type Commit, createCommit } from "../../../src/run/attempt/commit.ts";
import { eventLogPath } from "../../../src/run/directory/layout.ts";
import { RunFollower } from "../../../src/run/follow/run-follower.ts";
import type { Plan } from "../../../src/run/plan/plan.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";

const plan = { runId: "r", generation: 1 } as Plan;
const usage = (completionTokens: number) => ({ ...noUsage, completionTokens });

const begin = (runId = "r") => ({ type: "run-start", runId, generation: 1, resumedRows: 0 });
const worker = { type: "worker-start", worker: "w", pid: 1, capacity: 2, engine: "fake" };
const gone = { type: "worker-end", worker: "w" };
const start = (task: number, resumed = 0) => {
  const resumedUsage = usage(resumed);
  return { type: "task-start", task, worker: "w", rows: 10, resumed, resumedUsage };
};
const end = (task: number, outcome = "committed", done = 10) => {
  const counts = { done, failed: 1, usage: usage(done), errors: {} };
  return { type: "task-end", task, worker: "w", outcome, ...counts };
};
const progress = (done: number) => {
  const counts = { rows: 20, failed: 0, cut: 0, inFlight: 2, usage: usage(done) };
  return { type: "run-progress", done, ...counts };
};
const notice = (message: string) => ({ type: "notice", message });

/** A follower, and writers whose events it reads. */
function followed({ hasCoordinators = false, tasks = [0, 1, 2] } = {}) {
  const storage = memoryStorage();
  const clock = virtualClock();
  const heard: RunEvent[] = [];
  const onEvent = (event: RunEvent) => void heard.push(event);
  const follower = new RunFollower({
    ...{ storage, plan, clock, tasks, hasCoordinators, onEvent },
  });
  return {
    storage,
    clock,
    follower,
    async write(writer: string, ...events: object[]) {
      const appender = await storage.appender(eventLogPath(writer));
      const text = events.map((event) => `${JSON.stringify(event)}\n`).join("");
      await appender.append(Buffer.from(text));
      await appender.close();
    },
    /** The events since the last call, in short. */
    async read() {
      heard.length = 0;
      await follower.read();
      return heard.map((event) => {
        if (event.type === "task-progress") return `progress ${event.task} ${event.done}`;
        if (event.type === "task-start") return `start ${event.task} ${event.resumed}`;
        if (event.type === "task-end") return `end ${event.task} ${event.outcome}`;
        return event.type === "notice" ? event.message : event.type;
      });
    },
  };
}

describe("RunFollower", () => {
  it("passes on what workers write, with their progress by task", async () => {
    const { follower, write, read } = followed();
    await read();
    await write("aaaaaaaaaaaaaaa", begin(), worker, start(0, 2), start(1), progress(7));
    // The first open task is the one that gets on.
    expect(await read()).toEqual([
      "worker-start",
      "start 0 2",
      "start 1 0",
      "progress 0 7",
      "progress 1 0",
    ]);
    await write("aaaaaaaaaaaaaaa", progress(13));
    expect(await read()).toEqual(["progress 0 10", "progress 1 3"]);
    await write("aaaaaaaaaaaaaaa", end(0), end(1));
    expect(await read()).toEqual(["end 0 committed", "end 1 committed"]);
    expect(await follower.end([])).toMatchObject({
      committed: 2,
      resumedRows: 2,
      generatedTokens: 18,
    });
  });

  it("counts only what happens from its first reading on", async () => {
    const { follower, write, read } = followed({ tasks: [1, 2] });
    await write("aaaaaaaaaaaaaaa", begin(), worker, start(0), end(0), start(1), progress(14));
    // A writer of an earlier call, which died.
    await write("bbbbbbbbbbbbbbb", begin(), { ...worker, worker: "v" }, start(5));
    expect(await read()).toEqual([]);
    expect(follower.hasWorkers).toBe(false);
    await write("aaaaaaaaaaaaaaa", progress(16));
    expect(await read()).toEqual(["worker-start", "start 1 4", "progress 1 6"]);
    expect(follower.hasWorkers).toBe(true);
    await write("aaaaaaaaaaaaaaa", end(1));
    await read();
    expect(await follower.end([])).toMatchObject({
      committed: 1,
      resumedRows: 4,
      generatedTokens: 6,
    });
  });

  it("counts a task that ended after the call looked and before the first reading", async () => {
    const { follower, write, read } = followed({ tasks: [1, 2] });
    await write("aaaaaaaaaaaaaaa", begin(), worker, start(0), end(0), start(1), end(1), start(2));
    expect(await read()).toEqual(["end 1 committed"]);
    await write("aaaaaaaaaaaaaaa", end(2));
    expect(await read()).toEqual(["worker-start", "start 2 0", "end 2 committed"]);
    expect(await follower.end([])).toMatchObject({ committed: 2, generatedTokens: 20 });
  });

  it("counts a task of two workers once", async () => {
    const { follower, write, read } = followed();
    await read();
    await write("aaaaaaaaaaaaaaa", begin(), worker, start(0));
    await write("bbbbbbbbbbbbbbb", begin(), worker, start(0));
    await read();
    await write("bbbbbbbbbbbbbbb", end(0));
    await write("aaaaaaaaaaaaaaa", progress(9), end(0, "already-committed"));
    expect(await read()).toEqual(["progress 0 9", "end 0 already-committed"]);
    expect(await follower.end([])).toMatchObject({ committed: 1, generatedTokens: 10 });
  });

  it("learns of commits what a killed worker did not tell", async () => {
    const { storage, follower, write, read } = followed();
    await read();
    await write("aaaaaaaaaaaaaaa", begin(), worker, start(0), end(0), start(1));
    const rows = { total: 10, answered: 7, filtered: 1, failed: 2, results: 7 };
    const facts = { task: 1, run: "r", generation: 1, attempt: "a", worker: "w" };
    const commit = { ...facts, rows, usage: usage(30), errors: {} } as Commit;
    await createCommit(storage, plan, commit);
    await follower.readEnds();
    expect(await read()).toEqual([]);
    expect(await follower.end([])).toMatchObject({ committed: 2, generatedTokens: 40 });
  });

  it("takes a silent writer for gone, until it is heard again", async () => {
    const { clock, follower, write, read } = followed();
    await read();
    await write("aaaaaaaaaaaaaaa", begin(), worker, start(0));
    await read();
    await clock.run(sleep(clock, 19_000));
    expect(await read()).toEqual([]);
    await clock.run(sleep(clock, 2000));
    expect(await read()).toEqual(["worker-end"]);
    expect(follower.hasWorkers).toBe(false);
    await write("aaaaaaaaaaaaaaa", progress(3));
    expect(await read()).toEqual(["worker-start", "start 0 0", "progress 0 3"]);
  });

  it("tells a notice of many workers once, and none about who seals", async () => {
    const { write, read } = followed();
    await read();
    await write("aaaaaaaaaaaaaaa", begin(), worker, notice("slow disk"));
    await write("bbbbbbbbbbbbbbb", begin(), worker, notice("slow disk"), gone);
    await write("bbbbbbbbbbbbbbb", notice("another process is sealing the run"));
    expect(await read()).toEqual(["worker-start", "slow disk", "worker-start", "worker-end"]);
  });

  it("leaves out other runs, and coordinators unless it is asked for them", async () => {
    for (const hasCoordinators of [false, true]) {
      const { follower, write, read } = followed({ hasCoordinators });
      await read();
      await write("aaaaaaaaaaaaaaa", begin("other"), worker, start(0));
      const stop = { type: "run-stop", error: { code: "STORE_FULL", message: "full" } };
      await write("1", begin(), notice("planned"), stop);
      expect(await read()).toEqual(hasCoordinators ? ["planned"] : []);
      expect(follower.stops).toEqual(hasCoordinators ? [stop.error] : []);
    }
  });
});
