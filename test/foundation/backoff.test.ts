import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffMs, demandedWaitMs, withBackoff } from "../../src/foundation/backoff.ts";
import type { Clock } from "../../src/foundation/clock.ts";
import { limits } from "../../src/foundation/limits.ts";
import { seededRandom } from "../../src/foundation/random.ts";

/** Jumps to the end of each wait, and keeps the waits. */
function jumpingClock(): Clock & { waits: number[] } {
  const waits: number[] = [];
  return {
    waits,
    now: () => 0,
    monotonic: () => 0,
    schedule(delayMs, callback) {
      waits.push(delayMs);
      queueMicrotask(callback);
      return () => {};
    },
  };
}

const almostOne = { next: () => 1 - 2 ** -32 };

describe("backoffMs", () => {
  it("doubles its ceiling up to the longest wait", () => {
    const backoff = { baseMs: 100, maxMs: 1000 };
    const waits = [1, 2, 3, 4, 5, 50].map((tries) => backoffMs(tries, almostOne, backoff));
    expect(waits.map(Math.round)).toEqual([100, 200, 400, 800, 1000, 1000]);
  });

  it("is drawn from all of the span below the ceiling", () => {
    expect(backoffMs(3, { next: () => 0 })).toBe(0);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2000 }), fc.integer(), (tries, seed) => {
        const wait = backoffMs(tries, seededRandom(seed));
        return wait >= 0 && wait <= limits.backoffMaxMs;
      }),
    );
  });

  it("obeys the server's wish", () => {
    expect(backoffMs(1, { next: () => 0 }, undefined, 7000)).toBe(7000);
  });
});

describe("demandedWaitMs", () => {
  it("reads seconds and dates", () => {
    const now = Date.UTC(2024, 0, 1, 0, 0, 0);
    const waitMs = (header: string) => demandedWaitMs({ "retry-after": header }, now);
    expect(waitMs("120")).toBe(120_000);
    expect(waitMs(" 0.5 ")).toBe(500);
    expect(waitMs("Mon, 01 Jan 2024 00:00:30 GMT")).toBe(30_000);
    expect(waitMs("Sun, 31 Dec 2023 23:00:00 GMT")).toBe(0);
  });

  it("prefers milliseconds, and is limited", () => {
    const headers = { "retry-after-ms": "70.5", "retry-after": "1" };
    expect(demandedWaitMs(headers, 0)).toBe(70.5);
    expect(demandedWaitMs({ ...headers, "retry-after-ms": "soon" }, 0)).toBe(1000);
    expect(demandedWaitMs(headers, 0, 60)).toBe(60);
    expect(demandedWaitMs({ "retry-after": "1000000" }, 0)).toBe(limits.maxRetryAfterMs);
  });

  it("says nothing of what is neither", () => {
    expect(demandedWaitMs({}, 0)).toBeUndefined();
    expect(demandedWaitMs({ "retry-after": "soon" }, 0)).toBeUndefined();
  });
});

describe("withBackoff", () => {
  const options = { random: seededRandom(1), maxTries: 3, isTransient: () => true };

  it("gives the first success and counts tries from 1", async () => {
    const clock = jumpingClock();
    const tries: number[] = [];
    const answer = await withBackoff(
      async (number) => {
        tries.push(number);
        if (number < 3) throw new Error("not yet");
        return "done";
      },
      { ...options, clock },
    );
    expect([answer, tries, clock.waits.length]).toEqual(["done", [1, 2, 3], 2]);
  });

  it("throws the last failure after maxTries tries", async () => {
    const clock = jumpingClock();
    const failing = withBackoff((number) => Promise.reject(new Error(`try ${number}`)), {
      ...options,
      clock,
    });
    await expect(failing).rejects.toThrow("try 3");
    expect(clock.waits).toHaveLength(2);
  });

  it("does not repeat what is no use to repeat", async () => {
    const clock = jumpingClock();
    const failing = withBackoff(() => Promise.reject(new Error("refused")), {
      ...options,
      clock,
      isTransient: () => false,
    });
    await expect(failing).rejects.toThrow("refused");
    expect(clock.waits).toEqual([]);
  });

  it("ends with the signal's reason while it waits", async () => {
    const controller = new AbortController();
    const clock: Clock = { ...jumpingClock(), schedule: () => () => {} };
    const failing = withBackoff(
      () => {
        queueMicrotask(() => controller.abort(new Error("stopped")));
        return Promise.reject(new Error("down"));
      },
      { ...options, clock, signal: controller.signal },
    );
    await expect(failing).rejects.toThrow("stopped");
  });
});
