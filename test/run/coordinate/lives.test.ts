import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Clock } from "../../../src/foundation/clock.ts";
import { lookAtLives } from "../../../src/run/coordinate/lives.ts";
import { coordinatorPaths, workerPath } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import { processesOf } from "../whole-run.ts";

const at = (host: string, pid: number) => ({ host, bootId: "boot", pid, startTime: "1" });

/** Time that jumps to each timer, after `onTick` did what happens meanwhile. */
function jumpingClock(onTick: (elapsedMs: number) => Promise<void> = async () => {}): Clock {
  let elapsedMs = 0;
  return {
    now: () => elapsedMs,
    monotonic: () => elapsedMs,
    schedule(delayMs, callback) {
      elapsedMs += delayMs;
      void onTick(elapsedMs).then(callback);
      return () => {};
    },
  };
}

async function storageWith(host: string, hasEnded = false) {
  const storage = memoryStorage();
  const beat = async (worker: string, number: number, status = "running") => {
    const facts = { worker, status, engine: "fake", device: "cpu", beat: number };
    await storage.replace(workerPath(worker), recordBytes({ ...facts, ...at(host, 7) }));
  };
  const { record, heartbeat } = coordinatorPaths(3);
  await storage.replace(record, recordBytes({ number: 3, id: "c3", job: {}, ...at(host, 5) }));
  const coordinatorBeat = (number: number, ended = false) =>
    storage.replace(heartbeat, recordBytes({ beat: number, ended }));
  await coordinatorBeat(1, hasEnded);
  await beat("w1", 1);
  return { storage, beat, coordinatorBeat };
}

describe("lookAtLives", () => {
  it("sees at once who lives on this host", async () => {
    const { storage, beat } = await storageWith("here");
    await beat("w2", 4, "successful");
    const clock = jumpingClock();
    const look = (dead: number[]) =>
      lookAtLives(storage, { clock, processes: processesOf(1, new Set(dead)) });
    const { coordinator, workers } = await look([]);
    expect(coordinator).toMatchObject({ lives: true, hasEnded: false, record: { number: 3 } });
    expect(workers.map(({ lives, hasEnded }) => [lives, hasEnded])).toEqual([
      [true, false],
      [false, true],
    ]);
    expect((await look([5])).coordinator).toMatchObject({ lives: false, hasEnded: false });
    expect((await look([7])).workers[0]).toMatchObject({ lives: false, hasEnded: false });
    expect(clock.monotonic()).toBe(0);
  });

  it("believes that a coordinator left when it says so", async () => {
    const { storage } = await storageWith("here", true);
    const options = { clock: jumpingClock(), processes: processesOf(1) };
    expect((await lookAtLives(storage, options)).coordinator).toMatchObject({
      lives: false,
      hasEnded: true,
    });
  });

  it("watches the heartbeats of other hosts, as long as one stands still", async () => {
    const { storage, beat, coordinatorBeat } = await storageWith("there");
    await beat("w2", 1);
    const clock = jumpingClock(async (elapsedMs) => {
      if (elapsedMs > 1800) await beat("w1", 2);
      if (elapsedMs > 2500) await coordinatorBeat(2, true);
    });
    const lives = await lookAtLives(storage, { clock, processes: processesOf(1) });
    expect(lives.coordinator).toMatchObject({ lives: false, hasEnded: true });
    expect(lives.workers.map((worker) => worker.lives)).toEqual([true, false]);
    expect(clock.monotonic()).toBe(5000);
  });

  it("finds nobody where nobody was", async () => {
    const options = { clock: jumpingClock(), processes: processesOf(1) };
    expect(await lookAtLives(memoryStorage(), options)).toEqual({
      coordinator: undefined,
      workers: [],
    });
  });
});
