import { describe, expect, it } from "vitest";
import { seededRandom } from "../../../src/foundation/random.ts";
import {
  exactly,
  intervalOf,
  productOf,
  studentT,
  unitsOf,
} from "../../../src/run/bill/interval.ts";

const ones = (values: readonly number[]) => values.map((value) => ({ size: 1, value }));

describe("studentT", () => {
  // Tables of the distribution, two-sided 95 %.
  it.each([
    [1, 12.706],
    [2, 4.303],
    [3, 3.182],
    [5, 2.571],
    [9, 2.262],
    [30, 2.042],
    [120, 1.98],
    [1e6, 1.96],
  ])("of %d degrees of freedom is %d", (degreesOfFreedom, expected) => {
    expect(Math.abs(studentT(degreesOfFreedom) - expected)).toBeLessThan(expected / 500);
  });
});

describe("intervalOf", () => {
  it("is mean and t · s / √n, made smaller by the share of the whole that was seen", () => {
    // Mean 3, s² = 2.5, n = 5 of 10: half = 10 · 2.776 · √(0.5 · 2.5 / 5).
    const { estimated, low, high } = intervalOf(ones([1, 2, 3, 4, 5]), 10);
    expect(estimated).toBe(30);
    expect(high - 30).toBeCloseTo(10 * 2.776 * Math.sqrt(0.25), 1);
    expect(30 - low).toBeCloseTo(high - 30, 6);
  });

  it("is exact where all was seen, and never below what was seen", () => {
    expect(intervalOf(ones([1, 9]), 2)).toEqual(exactly(10));
    expect(intervalOf([], 7)).toEqual(exactly(0));
    expect(intervalOf(ones([0, 100]), 3).low).toBe(100);
  });

  it("takes sizes into account: where value goes by size nothing is uncertain", () => {
    const units = [10, 20, 70].map((size) => ({ size, value: size / 4 }));
    const { estimated, low, high } = intervalOf(units, 1000);
    expect([estimated, low, high].map((value) => Math.round(value))).toEqual([250, 250, 250]);
  });

  it("holds the truth in 95 of 100 samples, of skewed values and of groups alike", () => {
    const random = seededRandom(4);
    const skewed = Array.from({ length: 2000 }, () => -50 * Math.log(1 - random.next()));
    const truth = skewed.reduce((sum, value) => sum + value, 0);
    const grouped = Array.from({ length: 2000 }, (_, at) => skewed[at - (at % 20)]! + (at % 3));
    const trueGrouped = grouped.reduce((sum, value) => sum + value, 0);
    let [held, heldGrouped, heldAlone] = [0, 0, 0];
    const rounds = 1000;
    for (let round = 0; round < rounds; round++) {
      const picked = Array.from({ length: 60 }, () => Math.floor(random.next() * 2000));
      const found = intervalOf(ones(picked.map((at) => skewed[at]!)), 2000);
      if (found.low <= truth && truth <= found.high) held++;
      const rows = Array.from({ length: 12 }, () => Math.floor(random.next() * 100)).flatMap(
        (group, task) =>
          Array.from({ length: 10 }, (_, at) => ({
            task,
            size: 1,
            value: grouped[group * 20 + at]!,
          })),
      );
      const ofGroups = intervalOf(unitsOf(rows), 2000);
      if (ofGroups.low <= trueGrouped && trueGrouped <= ofGroups.high) heldGrouped++;
      const alone = intervalOf(rows, 2000);
      if (alone.low <= trueGrouped && trueGrouped <= alone.high) heldAlone++;
    }
    // Skewed values cost a few of a hundred; rows that are alike, taken one by one, far more.
    expect(held / rounds).toBeGreaterThan(0.91);
    expect(heldGrouped / rounds).toBeGreaterThan(0.85);
    expect(heldAlone / rounds).toBeLessThan(0.6);
  });
});

describe("unitsOf", () => {
  const rows = (tasks: number) =>
    Array.from({ length: tasks * 3 }, (_, at) => ({ task: at % tasks, size: 1, value: at }));

  it("joins rows of one task, unless there are few tasks", () => {
    expect(unitsOf(rows(4))).toHaveLength(12);
    expect(unitsOf(rows(5))).toHaveLength(5);
    expect(unitsOf(rows(5))[0]).toEqual({ size: 3, value: 0 + 5 + 10 });
  });
});

describe("productOf", () => {
  it("adds relative errors up in squares", () => {
    const a = { estimated: 10, low: 7, high: 13 };
    const b = { estimated: 100, low: 60, high: 140 };
    const found = productOf(a, b);
    expect([found.estimated, found.low, found.high]).toEqual([1000, 500, 1500]);
    expect(productOf(exactly(0), b)).toEqual(exactly(0));
  });
});
