import { describe, expect, it } from "vitest";
import { type Clock, sleep, systemClock } from "../../src/foundation/clock.ts";

/** A clock that moves only when told to. */
function manualClock(): Clock & { advance(ms: number): void; pending(): number } {
  let time = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  return {
    now: () => time,
    monotonic: () => time,
    schedule(delayMs, callback) {
      const timer = { at: time + delayMs, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    advance(ms) {
      time += ms;
      for (const timer of [...timers].filter(({ at }) => at <= time)) {
        timers.delete(timer);
        timer.callback();
      }
    },
    pending: () => timers.size,
  };
}

describe("sleep", () => {
  it("ends when its time has come, not before", async () => {
    const clock = manualClock();
    let awake = false;
    const sleeping = sleep(clock, 100).then(() => {
      awake = true;
    });
    clock.advance(99);
    await Promise.resolve();
    expect(awake).toBe(false);
    clock.advance(1);
    await sleeping;
    expect(awake).toBe(true);
  });

  it("is refused at once when the signal was aborted before", async () => {
    const clock = manualClock();
    const reason = new Error("stop");
    await expect(sleep(clock, 100, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(clock.pending()).toBe(0);
  });

  it("ends with the signal's reason and takes its timer back", async () => {
    const clock = manualClock();
    const controller = new AbortController();
    const sleeping = sleep(clock, 100, controller.signal);
    const reason = new Error("stop");
    controller.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
    expect(clock.pending()).toBe(0);
  });

  it("is not disturbed by an abort after its end", async () => {
    const clock = manualClock();
    const controller = new AbortController();
    const sleeping = sleep(clock, 5, controller.signal);
    clock.advance(5);
    controller.abort();
    await expect(sleeping).resolves.toBeUndefined();
  });
});

describe("systemClock", () => {
  it("never goes back and knows the year", () => {
    const first = systemClock.monotonic();
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(first);
    expect(new Date(systemClock.now()).getUTCFullYear()).toBeGreaterThanOrEqual(2024);
  });

  it("calls back, and does not once the timer is taken back", async () => {
    let taken = false;
    const cancel = systemClock.schedule(0, () => {
      taken = true;
    });
    cancel();
    await new Promise<void>((resolve) => systemClock.schedule(1, resolve));
    expect(taken).toBe(false);
  });

  it("calls back soon where the delay is below zero, not at once where it is huge", async () => {
    const warnings: string[] = [];
    const note = ({ name }: Error) => void warnings.push(name);
    process.on("warning", note);
    let isHugeOver = false;
    const cancel = systemClock.schedule(2 ** 40, () => {
      isHugeOver = true;
    });
    const forever = systemClock.schedule(Number.POSITIVE_INFINITY, () => {
      isHugeOver = true;
    });
    await sleep(systemClock, -0.5);
    await sleep(systemClock, 20);
    cancel();
    forever();
    process.off("warning", note);
    expect([isHugeOver, warnings]).toEqual([false, []]);
  });
});
