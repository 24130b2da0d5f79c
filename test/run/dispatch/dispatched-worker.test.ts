import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import { newRunning, newTask } from "../../../src/run/dispatch/dispatched-task.ts";
import {
  DispatchedWorker,
  type WorkerHandle,
} from "../../../src/run/dispatch/dispatched-worker.ts";

/** A worker with tasks of which so many rows wait and are asked. */
function workerWith(...tasks: { waiting: number; inFlight: number }[]): DispatchedWorker {
  const worker = new DispatchedWorker(0, {} as WorkerHandle);
  worker.noteWanted({ capacity: 64 });
  for (const [task, { waiting, inFlight }] of tasks.entries()) {
    worker.running.set(task, { ...newRunning(newTask(task), waiting), inFlight });
  }
  return worker;
}

describe("DispatchedWorker", () => {
  it("wants a task while fewer rows wait than its engine can hold", () => {
    expect(workerWith().wantsTask).toBe(true);
    expect(workerWith({ waiting: 63, inFlight: 64 }).wantsTask).toBe(true);
    expect(workerWith({ waiting: 64, inFlight: 64 }).wantsTask).toBe(false);
  });

  it("wants one as long before as it said, but few of them untouched", () => {
    const asked = { waiting: 5000, inFlight: 64 };
    const untouched = { waiting: 10, inFlight: 0 };
    const worker = workerWith(asked);
    worker.noteWanted({ rowsAhead: 6000 });
    expect(worker.wantsTask).toBe(true);
    worker.noteWanted({ rowsAhead: 0 });
    expect(worker.wantsTask).toBe(false);
    const many = workerWith(
      asked,
      ...Array.from({ length: limits.maxTasksAhead }, () => untouched),
    );
    many.noteWanted({ rowsAhead: 6000 });
    expect(many.wantsTask).toBe(false);
  });

  it("wants one only for a place that is free, where none may wait", () => {
    const worker = (waiting: number, inFlight: number) => {
      const one = new DispatchedWorker(0, {} as WorkerHandle, { takesAhead: false });
      one.noteWanted({ capacity: 2, rowsAhead: 100 });
      one.running.set(0, { ...newRunning(newTask(0), waiting), inFlight });
      return one.wantsTask;
    };
    expect([worker(0, 1), worker(1, 0), worker(1, 1), worker(0, 2)]).toEqual([
      ...[true, true, false, false],
    ]);
  });

  it("wants no more than it may hold open", () => {
    const done = { waiting: 0, inFlight: 0 };
    expect(workerWith(...Array.from({ length: limits.maxOpenTasks }, () => done)).wantsTask).toBe(
      false,
    );
  });
});
