import { describe, expect, it } from "vitest";
import { type Channel, channelPair } from "../../src/foundation/channel.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { noUsage } from "../../src/foundation/inference.ts";
import { limits } from "../../src/foundation/limits.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { Dispatcher, type DispatchOptions } from "../../src/run/dispatch.ts";
import type { RunEvent } from "../../src/run/events.ts";
import type { FromWorker, ToWorker } from "../../src/run/worker/protocol.ts";
import { virtualClock } from "../../src/testing/virtual-clock.ts";
import { settled } from "./scripted-engine.ts";

type Message<Type extends FromWorker["type"]> = Omit<
  Extract<FromWorker, { type: Type }>,
  "type" | "usage" | "errors"
> & { errors?: Extract<FromWorker, { type: "task-end" }>["errors"] };

/** A worker that does what the test says. */
interface ScriptedWorker {
  slot: number;
  heard: ToWorker[];
  /** Tasks it was told to run. */
  tasks(): number[];
  isKilled: boolean;
  channel: Channel<FromWorker, ToWorker>;
  ready(capacity?: number): Promise<void>;
  start(task: number, resumed?: number): Promise<void>;
  progress(task: number, facts: Partial<Message<"task-progress">>): Promise<void>;
  end(task: number, facts?: Partial<Message<"task-end">>): Promise<void>;
  /** Is gone. */
  die(reason?: string): Promise<void>;
}

function dispatching(tasks: number, changes: Partial<DispatchOptions> = {}) {
  const clock = virtualClock();
  const workers: ScriptedWorker[] = [];
  const events: RunEvent[] = [];
  const stop = new AbortController();
  const dispatcher = new Dispatcher({
    tasks: Array.from({ length: tasks }, (_, task) => task),
    rowsOf: () => 10,
    workers: 1,
    clock,
    random: seededRandom(2),
    maxTaskRetries: 1,
    failedBefore: 0,
    onEvent: (event) => events.push(event),
    signal: stop.signal,
    startWorker: async (slot) => {
      const { worker, handle } = scriptedWorker(slot);
      workers.push(worker);
      return handle;
    },
    ...changes,
  });
  const ended = dispatcher.run();
  const worker = (number: number) => workers[number]!;
  const state = { isOver: false };
  void ended.then(() => {
    state.isOver = true;
  });
  return { clock, workers, worker, events, stop, ended, state };
}

function scriptedWorker(slot: number) {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const gone = Promise.withResolvers<string>();
  const heard: ToWorker[] = [];
  far.onMessage((message) => heard.push(message));
  const send = async (message: FromWorker) => {
    far.send(message);
    await settled();
  };
  const counts = { usage: noUsage, errors: {}, done: 0, failed: 0 };
  const worker: ScriptedWorker = {
    slot,
    heard,
    tasks: () => heard.flatMap((it) => (it.type === "task-run" ? it.task : [])),
    isKilled: false,
    channel: far,
    ready: (capacity = 1) => {
      const facts = { worker: `w${slot}`, pid: 1, protocol: 1, engine: "scripted", choices: {} };
      return send({ type: "worker-ready", ...facts, capacity });
    },
    start: (task, resumed = 0) =>
      send({ type: "task-start", task, attempt: "a", rows: 10, resumed }),
    progress: (task, facts) =>
      send({ type: "task-progress", task, waiting: 5, inFlight: 1, ...counts, ...facts }),
    end: (task, facts = {}) =>
      send({ type: "task-end", task, outcome: "committed", ...counts, done: 10, ...facts }),
    die: async (reason = "killed") => {
      gone.resolve(reason);
      await settled();
    },
  };
  const kill = () => {
    worker.isKilled = true;
    gone.resolve("killed by its coordinator");
  };
  return { worker, handle: { channel: near, kill, ended: gone.promise } };
}

const restartMs = 60_000;

describe("handing out tasks", () => {
  it("gives a worker more only as it has room, in order", async () => {
    const { worker } = dispatching(4);
    await settled();
    expect(worker(0).tasks()).toEqual([]);
    await worker(0).ready(8);
    expect(worker(0).tasks()).toEqual([0]);
    await worker(0).progress(0, { waiting: 8 });
    expect(worker(0).tasks()).toEqual([0]);
    await worker(0).progress(0, { waiting: 7 });
    expect(worker(0).tasks()).toEqual([0, 1]);
    await worker(0).progress(1, { waiting: 1 });
    expect(worker(0).tasks()).toEqual([0, 1]);
    await worker(0).end(0);
    expect(worker(0).tasks()).toEqual([0, 1, 2]);
  });

  it("starts no more workers than there are tasks, and ends when all are committed", async () => {
    const { workers, worker, ended, state } = dispatching(2, { workers: 5 });
    await settled();
    expect(workers).toHaveLength(2);
    await Promise.all(workers.map((it) => it.ready()));
    await worker(0).end(0);
    await worker(1).end(1, { outcome: "already-committed" });
    expect(worker(0).heard.at(-1)).toMatchObject({ type: "worker-stop" });
    expect(state.isOver).toBe(false);
    await Promise.all(workers.map((it) => it.die("left with code 0")));
    const { committed, error } = await ended;
    expect([committed, error]).toEqual([2, undefined]);
  });

  it("ends at once where there is nothing to do", async () => {
    const { ended, workers } = dispatching(0);
    expect(await ended).toMatchObject({ committed: 0, resumedRows: 0 });
    expect(workers).toEqual([]);
  });

  it("counts rows that earlier calls had answered, those of its own tries not", async () => {
    const run = dispatching(1);
    await settled();
    await run.worker(0).ready();
    await run.worker(0).start(0, 4);
    await run.worker(0).die();
    await untilStarted(run, 2);
    await run.worker(1).ready();
    await run.worker(1).start(0, 9);
    await run.worker(1).end(0);
    await run.worker(1).die();
    expect((await run.ended).resumedRows).toBe(4);
  });
});

/** Lets time pass until `count` workers were started. */
async function untilStarted(
  { clock, workers }: Pick<ReturnType<typeof dispatching>, "clock" | "workers">,
  count: number,
): Promise<void> {
  await clock.run(
    (async () => {
      while (workers.length < count) {
        await new Promise<void>((resolve) => clock.schedule(10, resolve));
      }
    })(),
    restartMs,
  );
}

describe("a worker that dies", () => {
  it("is replaced, and its task goes on with the rows it had under suspicion", async () => {
    const run = dispatching(1);
    await settled();
    await run.worker(0).ready(4);
    await run.worker(0).start(0);
    await run.worker(0).die();
    expect(run.events.at(-1)).toMatchObject({
      type: "worker-end",
      error: { code: "ENGINE_DIED", message: expect.stringContaining("killed") as unknown },
    });
    await untilStarted(run, 2);
    await run.worker(1).ready(4);
    expect(run.worker(1).heard).toEqual([{ type: "task-run", task: 0, suspects: 4 }]);
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

  it("ends the run when its task got nowhere in all its tries", async () => {
    const run = dispatching(1, { maxTaskRetries: 1 });
    await settled();
    let tries = 0;
    for (; !run.state.isOver && tries < 50; tries++) {
      await run.worker(tries).ready(1);
      await run.worker(tries).die("out of memory");
      if (!run.state.isOver) await untilStarted(run, tries + 2).catch(() => {});
      await settled();
    }
    // One retry, the halvings of the task's ten rows, and as many deaths as a row may cause.
    expect(tries).toBe(1 + 1 + 4 + limits.maxRowKills);
    const { error } = await run.ended;
    expect(error).toMatchObject({ code: "TASK_FAILED" });
    expect(error?.message).toContain("out of memory");
  });

  it("may die as often as it likes while its task gets on", async () => {
    const run = dispatching(1, { maxTaskRetries: 0 });
    await settled();
    for (let death = 0; death < 20; death++) {
      await run.worker(death).ready();
      await run.worker(death).start(0, death);
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

describe("a task that fails", () => {
  const stored = new SluiceError("STORE_FAILED").toJSON();

  it("is tried again where the storage may recover, and then ends the run", async () => {
    const { worker, ended } = dispatching(1, { maxTaskRetries: 1 });
    await settled();
    await worker(0).ready();
    await worker(0).end(0, { outcome: "failed", error: stored, done: 0 });
    expect(worker(0).tasks()).toEqual([0, 0]);
    await worker(0).end(0, { outcome: "failed", error: stored, done: 0 });
    await worker(0).die();
    expect((await ended).error).toMatchObject({ code: "TASK_FAILED", exitCode: 75 });
  });

  it("stops the run at once where it would fail again", async () => {
    const { worker, ended } = dispatching(2);
    await settled();
    await worker(0).ready();
    const error = new SluiceError("INPUT_CHANGED").toJSON();
    await worker(0).end(0, { outcome: "failed", error, done: 3, failed: 1 });
    expect(worker(0).tasks()).toEqual([0]);
    expect(worker(0).heard.at(-1)).toMatchObject({ type: "worker-stop" });
    await worker(0).die();
    const { error: reason, partial } = await ended;
    expect(reason?.code).toBe("INPUT_CHANGED");
    expect(partial).toMatchObject({ answered: 2, failed: 1 });
  });
});

describe("the budget of failed rows", () => {
  it("stops the run while tasks are still at work, once it is exceeded", async () => {
    const { worker, ended } = dispatching(3, { maxFailedRows: 5, failedBefore: 2 });
    await settled();
    await worker(0).ready();
    await worker(0).progress(0, { failed: 3 });
    expect(worker(0).heard.at(-1)).toMatchObject({ type: "task-run" });
    await worker(0).end(0, { failed: 4 });
    expect(worker(0).heard.at(-1)).toMatchObject({ type: "worker-stop" });
    await worker(0).die();
    expect((await ended).error).toMatchObject({ code: "TOO_MANY_FAILED_ROWS", exitCode: 1 });
  });

  it("does not count the rows of a try that is repeated", async () => {
    const run = dispatching(1, { maxFailedRows: 3 });
    await settled();
    await run.worker(0).ready();
    await run.worker(0).progress(0, { failed: 3 });
    await run.worker(0).die();
    await untilStarted(run, 2);
    await run.worker(1).ready();
    await run.worker(1).end(0, { failed: 3 });
    await run.worker(1).die();
    expect((await run.ended).error).toBeUndefined();
  });

  it("may be exceeded before anything starts", async () => {
    const { ended, workers } = dispatching(1, { maxFailedRows: 0, failedBefore: 1 });
    expect((await ended).error?.code).toBe("TOO_MANY_FAILED_ROWS");
    expect(workers).toEqual([]);
  });
});

describe("stopping", () => {
  it("asks workers to leave, kills those that do not, and counts what was done", async () => {
    const { clock, worker, stop, ended, workers } = dispatching(2, { workers: 2 });
    await settled();
    await Promise.all(workers.map((it) => it.ready()));
    stop.abort();
    await settled();
    expect(worker(0).heard.at(-1)).toEqual({ type: "worker-stop", graceMs: limits.stopGraceMs });
    await worker(0).end(0, { outcome: "canceled", done: 6, failed: 1 });
    await worker(0).die("left with code 0");
    const { error, partial } = await clock.run(ended);
    expect(worker(1).isKilled).toBe(true);
    expect(error?.code).toBe("RUN_CANCELED");
    expect(partial).toMatchObject({ answered: 5, failed: 1 });
  });

  it("gives the reason of the signal, where that is an error with a name", async () => {
    const { worker, stop, ended } = dispatching(1);
    await settled();
    stop.abort(new SluiceError("COORDINATOR_LOST"));
    await worker(0).die();
    expect((await ended).error?.code).toBe("COORDINATOR_LOST");
  });

  it("starts nothing where the signal was aborted before", async () => {
    const { ended, workers } = dispatching(1, { signal: AbortSignal.abort() });
    expect((await ended).error?.code).toBe("RUN_CANCELED");
    expect(workers).toEqual([]);
  });

  it("follows from a worker that says it cannot start", async () => {
    const { worker, ended } = dispatching(1);
    await settled();
    const error = new SluiceError("MODEL_CORRUPT", "x.gguf").toJSON();
    worker(0).channel.send({ type: "worker-failed", error });
    await settled();
    await worker(0).die();
    expect((await ended).error).toMatchObject({ code: "MODEL_CORRUPT", exitCode: 69 });
  });

  it("follows from a worker that cannot be started", async () => {
    const startWorker = () => Promise.reject(new Error("no such program"));
    const { ended } = dispatching(1, { startWorker });
    expect((await ended).error?.code).toBe("ENGINE_START_FAILED");
  });

  it("lets nothing that a worker says after its death count", async () => {
    const { worker, events } = dispatching(1);
    await settled();
    await worker(0).ready();
    await worker(0).die();
    const before = events.length;
    await worker(0).end(0);
    expect(events).toHaveLength(before);
  });
});

describe("events", () => {
  it("tell each kind of failed row once, with how many are new", async () => {
    const { worker, events } = dispatching(1);
    await settled();
    await worker(0).ready();
    const errors = (count: number) => ({ SERVER_ERROR: { count, message: "busy" } });
    await worker(0).progress(0, { errors: errors(2) });
    await worker(0).progress(0, { errors: errors(2) });
    await worker(0).end(0, { errors: errors(5) });
    expect(events.filter(({ type }) => type === "row-error")).toEqual([
      { type: "row-error", code: "SERVER_ERROR", message: "busy", count: 2 },
      { type: "row-error", code: "SERVER_ERROR", message: "busy", count: 3 },
    ]);
  });
});
