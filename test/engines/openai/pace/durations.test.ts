import { describe, expect, it } from "vitest";
import { Durations, sizeOf } from "../../../../src/engines/openai/pace/durations.ts";

const taken = (size: number, durationMs: number) => ({ size, durationMs, meanInFlight: 4 });

function durationsOf(pairs: readonly [size: number, durationMs: number][]): Durations {
  const durations = new Durations();
  for (const [size, durationMs] of pairs) durations.add(taken(size, durationMs));
  return durations;
}

describe("sizeOf", () => {
  it("counts what a prompt costs beside its answer, which is little", () => {
    expect(sizeOf(160, 20)).toBe(30);
  });
});

describe("Durations", () => {
  it("says what a request of any size takes, by the line through those that were there", () => {
    const durations = durationsOf([
      [10, 200],
      [20, 300],
      [40, 500],
    ]);
    const { durationMs, variance } = durations.ofSize(100);
    expect(durationMs).toBeCloseTo(1100, 6);
    expect(variance).toBeCloseTo(0, 6);
    expect([durations.count, durations.meanInFlight]).toEqual([3, 4]);
  });

  it("is the less sure the wider durations lie, and the farther away the size is", () => {
    const wide = durationsOf([
      [10, 200],
      [20, 380],
      [30, 330],
      [40, 500],
    ]);
    const near = wide.ofSize(25).variance;
    expect(near).toBeGreaterThan(0);
    expect(wide.ofSize(200).variance).toBeGreaterThan(10 * near);
  });

  it("is the mean where all are of one size, and never below what a request can take", () => {
    const even = durationsOf([
      [5, 100],
      [5, 140],
    ]);
    expect(even.ofSize(500).durationMs).toBe(120);
    const steep = durationsOf([
      [100, 100],
      [110, 900],
    ]);
    expect(steep.ofSize(1).durationMs).toBe(50);
    const falling = durationsOf([
      [10, 300],
      [20, 100],
    ]);
    expect(falling.ofSize(1000).durationMs).toBe(200);
  });
});
