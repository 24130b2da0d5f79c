import { describe, expect, it } from "vitest";
import { limits } from "../../src/foundation/limits.ts";
import { handClock } from "../hand-clock.ts";
import { dispatching, untilStarted } from "./dispatching.ts";
import { settled } from "./scripted-engine.ts";

describe("a worker that hangs", () => {
  it("is ended, and its rows are suspected", async () => {
    const run = dispatching(1, { maxTaskRetries: 100 });
    await settled();
    await run.worker(0).ready(4);
    await run.worker(0).start(0);
    await run.worker(0).asking(0, "0-3");
    await run.pass(limits.maxWorkerSilenceMs * 1.5 + 1);
    expect(run.worker(0).isKilled).toBe(true);
    expect(run.events.at(-1)).toMatchObject({
      type: "worker-end",
      error: { message: expect.stringContaining("it said nothing for 60 s") as unknown },
    });
    await untilStarted(run, 2);
    await run.worker(1).ready(4);
    const suspects = { attempt: "a0", rows: "0-3", together: 2 };
    const stalled = { ...suspects, stalled: true };
    expect(run.worker(1).heard).toEqual([{ type: "task-run", task: 0, suspects: stalled }]);
    await run.worker(1).start(0);
    await run.worker(1).asking(0, "0-3");
    await run.worker(1).die();
    await untilStarted(run, 3);
    await run.worker(2).ready(4);
    expect(run.worker(2).heard).toEqual([
      { type: "task-run", task: 0, suspects: { ...suspects, attempt: "a1" } },
    ]);
  });

  it("ends the run when each one after it hangs as well", async () => {
    const run = dispatching(1, { maxTaskRetries: 2 });
    await settled();
    for (const number of [0, 1, 2]) {
      await run.worker(number).ready();
      await run.pass(limits.maxWorkerSilenceMs * 1.5 + 1);
      await settled();
      if (number < 2) await untilStarted(run, number + 2);
    }
    const { error } = await run.ended;
    expect(error).toMatchObject({ code: "TASK_FAILED" });
    expect(error?.message).toContain("it said nothing");
  });

  it("is none that says now and then that it lives", async () => {
    const run = dispatching(2);
    await settled();
    await run.worker(0).ready(100);
    for (let minute = 0; minute < 10; minute++) {
      await run.pass(limits.maxWorkerSilenceMs - 1);
      await run.worker(0).beat();
    }
    expect(run.worker(0).isKilled).toBe(false);
  });

  it("is none that is not ready yet: its model may be large", async () => {
    const run = dispatching(1);
    await settled();
    await run.pass(limits.maxWorkerSilenceMs * 3);
    expect(run.worker(0).isKilled).toBe(false);
  });

  it("is none that slept with its machine, whatever the clock says when it wakes", async () => {
    const { clock, pass } = handClock();
    const run = dispatching(2, { workers: 2, clock });
    await settled();
    for (const worker of run.workers) await worker.ready();
    pass(limits.maxWorkerSilenceMs / 2);
    // All timers are due at once, before anything that the workers say is heard.
    pass(8 * 3_600_000);
    for (const worker of run.workers) await worker.beat();
    pass(limits.maxWorkerSilenceMs / 2);
    expect(run.workers.map((worker) => worker.isKilled)).toEqual([false, false]);
    pass(limits.maxWorkerSilenceMs / 2);
    pass(limits.maxWorkerSilenceMs / 2);
    expect(run.workers.map((worker) => worker.isKilled)).toEqual([true, true]);
  });
});
