import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Clock } from "../../src/foundation/clock.ts";
import { limits } from "../../src/foundation/limits.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { backoffMs, parseRetryAfter, retry } from "../../src/foundation/retry.ts";

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
    const waits = [1, 2, 3, 4, 5, 50].map((attempt) => backoffMs(attempt, almostOne, backoff));
    expect(waits.map(Math.round)).toEqual([100, 200, 400, 800, 1000, 1000]);
  });

  it("is drawn from all of the span below the ceiling", () => {
    expect(backoffMs(3, { next: () => 0 })).toBe(0);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2000 }), fc.integer(), (attempt, seed) => {
        const wait = backoffMs(attempt, seededRandom(seed));
        return wait >= 0 && wait <= limits.retryMaxMs;
      }),
    );
  });

  it("obeys the server's wish, within reason", () => {
    expect(backoffMs(1, { next: () => 0 }, undefined, 7000)).toBe(7000);
    expect(backoffMs(1, { next: () => 0 }, undefined, 10 ** 9)).toBe(limits.maxRetryAfterMs);
  });
});

describe("parseRetryAfter", () => {
  it("reads seconds and dates", () => {
    const now = Date.UTC(2024, 0, 1, 0, 0, 0);
    expect(parseRetryAfter("120", now)).toBe(120_000);
    expect(parseRetryAfter(" 0.5 ", now)).toBe(500);
    expect(parseRetryAfter("Mon, 01 Jan 2024 00:00:30 GMT", now)).toBe(30_000);
    expect(parseRetryAfter("Sun, 31 Dec 2023 23:00:00 GMT", now)).toBe(0);
  });

  it("says nothing of what is neither", () => {
    expect(parseRetryAfter(undefined, 0)).toBeUndefined();
    expect(parseRetryAfter("soon", 0)).toBeUndefined();
  });
});

describe("retry", () => {
  const options = { random: seededRandom(1), maxAttempts: 3, isRetryable: () => true };

  it("gives the first success and counts tries from 1", async () => {
    const clock = jumpingClock();
    const tries: number[] = [];
    const answer = await retry(
      async (attempt) => {
        tries.push(attempt);
        if (attempt < 3) throw new Error("not yet");
        return "done";
      },
      { ...options, clock },
    );
    expect([answer, tries, clock.waits.length]).toEqual(["done", [1, 2, 3], 2]);
  });

  it("throws the last failure after maxAttempts tries", async () => {
    const clock = jumpingClock();
    const failing = retry((attempt) => Promise.reject(new Error(`try ${attempt}`)), {
      ...options,
      clock,
    });
    await expect(failing).rejects.toThrow("try 3");
    expect(clock.waits).toHaveLength(2);
  });

  it("does not repeat what is no use to repeat", async () => {
    const clock = jumpingClock();
    const failing = retry(() => Promise.reject(new Error("refused")), {
      ...options,
      clock,
      isRetryable: () => false,
    });
    await expect(failing).rejects.toThrow("refused");
    expect(clock.waits).toEqual([]);
  });

  it("ends with the signal's reason while it waits", async () => {
    const controller = new AbortController();
    const clock: Clock = { ...jumpingClock(), schedule: () => () => {} };
    const failing = retry(
      () => {
        queueMicrotask(() => controller.abort(new Error("stopped")));
        return Promise.reject(new Error("down"));
      },
      { ...options, clock, signal: controller.signal },
    );
    await expect(failing).rejects.toThrow("stopped");
  });
});
