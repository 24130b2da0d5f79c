import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { sleep } from "../../src/foundation/clock.ts";
import { virtualClock } from "./virtual-clock.ts";

describe("virtualClock", () => {
  it("lets timers fire in the order of their times, and of their making at one time", async () => {
    const clock = virtualClock();
    const fired: string[] = [];
    const note = (name: string) => () => void fired.push(`${name} ${clock.monotonic()}`);
    clock.schedule(20, note("late"));
    clock.schedule(5, note("first"));
    clock.schedule(5, note("second"));
    await clock.run(sleep(clock, 30));
    expect(fired).toEqual(["first 5", "second 5", "late 20"]);
    expect(clock.now()).toBe(Date.UTC(2026, 0, 1) + 30);
  });

  it("runs all that a timer started before the next one", async () => {
    const clock = virtualClock();
    const seen: number[] = [];
    const chain = async () => {
      for (let step = 0; step < 50; step++) await Promise.resolve();
      seen.push(clock.monotonic());
    };
    clock.schedule(1, () => void chain());
    clock.schedule(2, () => void seen.push(clock.monotonic()));
    await clock.run(sleep(clock, 3));
    expect(seen).toEqual([1, 2]);
  });

  it("does not fire what was taken back", async () => {
    const clock = virtualClock();
    let fired = 0;
    const cancel = clock.schedule(1, () => fired++);
    clock.schedule(0, cancel);
    await clock.run(sleep(clock, 5));
    cancel();
    expect(fired).toBe(0);
  });

  it("stands still while real work is under way", async () => {
    let isBusy = true;
    const clock = virtualClock({ startMs: 0, isBusy: () => isBusy });
    const reading = readFile(import.meta.filename).then(() => {
      isBusy = false;
      return clock.monotonic();
    });
    clock.schedule(10, () => {});
    expect(await clock.run(reading)).toBe(0);
  });

  it("says so when nothing will ever happen, and when it takes too long", async () => {
    const clock = virtualClock();
    await expect(clock.run(new Promise(() => {}))).rejects.toThrow("deadlock");
    const again = () => void clock.schedule(1000, again);
    again();
    await expect(clock.run(new Promise(() => {}), 60_000)).rejects.toThrow("time it was given");
  });
});
