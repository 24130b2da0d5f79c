import { describe, expect, it } from "vitest";
import { shortNumber } from "../../../../src/engines/transformers/tasks/task.ts";

describe("shortNumber", () => {
  it("writes the digits that a 32-bit float holds", () => {
    expect(String(shortNumber(Math.fround(0.1)))).toBe("0.1");
    expect(shortNumber(0)).toBe(0);
    expect(shortNumber(1e-44)).toBeGreaterThan(0);
    for (const value of [0.037330319, -3.0607398e-4, 12345.678, 3e30, -1e-20]) {
      const float = Math.fround(value);
      expect(Math.fround(shortNumber(float)) / float).toBeCloseTo(1, 6);
      expect(String(Math.abs(shortNumber(float))).length).toBeLessThanOrEqual(31);
    }
  });
});
