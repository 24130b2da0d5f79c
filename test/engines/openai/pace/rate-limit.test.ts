import { describe, expect, it } from "vitest";
import { RateLimit } from "../../../../src/engines/openai/pace/rate-limit.ts";

/** When each of so many takings of `amount` goes, taken as early as the limit lets them. */
function timesOf(limit: RateLimit, count: number, amount = 1): number[] {
  const times: number[] = [];
  for (let nowMs = 0; times.length < count; nowMs += Math.max(1, limit.waitMs(nowMs))) {
    while (limit.waitMs(nowMs) === 0 && times.length < count) {
      limit.take(amount, nowMs);
      times.push(nowMs);
    }
  }
  return times;
}

/** The most that went in any minute. */
function mostInAMinute(times: readonly number[]): number {
  return Math.max(
    ...times.map((from) => times.filter((at) => at >= from && at < from + 60_000).length),
  );
}

describe("RateLimit.perMinute", () => {
  it("lets no more than the limit pass in any minute, and hardly less", () => {
    for (const perMinute of [1, 2, 7, 60, 600]) {
      const times = timesOf(RateLimit.perMinute(perMinute, 0), 3 * perMinute);
      expect(mostInAMinute(times)).toBeLessThanOrEqual(perMinute);
      if (perMinute >= 60) expect(times.at(-1)).toBeLessThan(1.05 * 3 * 60_000);
    }
  });

  it("lets a request pass that is larger than all of it, and waits for it afterwards", () => {
    const times = timesOf(RateLimit.perMinute(1000, 0), 3, 2000);
    expect(times[0]).toBe(0);
    expect(times[1]).toBeGreaterThan(115_000);
    expect(times[1]).toBeLessThan(125_000);
  });

  it("takes back what was not used", () => {
    const limit = RateLimit.perMinute(60_000, 0);
    limit.take(61_000, 0);
    expect(limit.waitMs(0)).toBeGreaterThan(50_000);
    limit.refund(60_900);
    expect(limit.waitMs(0)).toBe(0);
  });

  it("takes back no more than it holds: what was too much cannot be sent later", () => {
    const limit = RateLimit.perMinute(60_000, 0);
    limit.take(500, 0);
    limit.refund(100_000);
    limit.take(1000, 0);
    expect(limit.waitMs(0)).toBeGreaterThan(0);
  });

  it("does not heed headers: the job says it", () => {
    const limit = RateLimit.perMinute(6000, 0);
    limit.learn({ limit: 10, remaining: 0, resetMs: 60_000 }, 0, 0);
    expect(limit.waitMs(0)).toBe(0);
  });
});

describe("RateLimit.fromHeaders", () => {
  it("goes by what is left, and by how fast that grows, whatever the period", () => {
    const aDay = { limit: 14_400, remaining: 2, resetMs: (14_398 / 14_400) * 86_400_000 };
    const times = timesOf(RateLimit.fromHeaders(aDay, 0, 0), 4);
    expect(times.slice(0, 2)).toEqual([0, 0]);
    expect(times[2]).toBeGreaterThan(5900);
    expect(times[3]! - times[2]!).toBeGreaterThan(5900);
    expect(times[3]).toBeLessThan(12_100);
  });

  it("counts what was sent since as taken, and never believes in more than it had", () => {
    const limit = RateLimit.fromHeaders({ limit: 60, remaining: 10, resetMs: 50_000 }, 10, 0);
    expect(limit.waitMs(0)).toBe(1000);
    limit.learn({ limit: 60, remaining: 50, resetMs: 10_000 }, 0, 0);
    expect(limit.waitMs(0)).toBe(1000);
    limit.learn({ limit: 60, remaining: 0, resetMs: 60_000 }, 5, 0);
    expect(limit.waitMs(0)).toBe(6000);
  });

  it("sends one now and then, though a reply names a limit that takes days to fill", () => {
    const days = { limit: 1, remaining: 0, resetMs: 6 * 86_400_000 };
    const times = timesOf(RateLimit.fromHeaders(days, 0, 0), 3);
    expect(times).toEqual([600_000, 1_200_000, 1_800_000]);
  });
});
