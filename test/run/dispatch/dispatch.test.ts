import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { dispatching, untilStarted } from "../dispatching.ts";
import { settled } from "../scripted-engine.ts";

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

  it("follows what a worker says it can hold by now", async () => {
    const { worker } = dispatching(5);
    await settled();
    await worker(0).ready(8);
    await worker(0).progress(0, { waiting: 9, capacity: 25 });
    expect(worker(0).tasks()).toEqual([0, 1, 2]);
    await worker(0).progress(0, { waiting: 0 });
    expect(worker(0).tasks()).toEqual([0, 1, 2, 3]);
    await worker(0).progress(1, { waiting: 0, capacity: 4 });
    expect(worker(0).tasks()).toEqual([0, 1, 2, 3]);
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

describe("tasks that are handed out ahead", () => {
  it("are one that is not begun, however many rows their worker wants", async () => {
    const { worker } = dispatching(5);
    await settled();
    await worker(0).ready();
    await worker(0).progress(0, { waiting: 5, inFlight: 1, rowsAhead: 1000 });
    expect(worker(0).tasks()).toEqual([0, 1]);
    await worker(0).progress(1, { waiting: 9, inFlight: 1 });
    expect(worker(0).tasks()).toEqual([0, 1, 2]);
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
    const run = dispatching(2, { maxFailedRows: 3 });
    await settled();
    await run.worker(0).ready();
    await run.worker(0).progress(0, { failed: 3 });
    await run.worker(0).die();
    await untilStarted(run, 2);
    await run.worker(1).ready();
    await run.worker(1).end(0, { failed: 3 });
    expect(run.worker(1).tasks()).toEqual([0, 1]);
    await run.worker(1).progress(1, { failed: 1 });
    expect(run.worker(1).heard.at(-1)).toMatchObject({ type: "worker-stop" });
  });

  it("counts a row once that fails again after a failure of its task", async () => {
    const run = dispatching(2, { maxFailedRows: 3 });
    await settled();
    await run.worker(0).ready();
    await run.worker(0).progress(0, { failed: 3 });
    const error = new SluiceError("STORE_FAILED").toJSON();
    await run.worker(0).end(0, { outcome: "failed", failed: 3, error });
    await run.worker(0).end(0, { failed: 3 });
    expect(run.worker(0).tasks()).toEqual([0, 0, 1]);
    expect(run.worker(0).heard.at(-1)).toMatchObject({ type: "task-run" });
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
