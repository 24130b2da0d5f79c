import { describe, expect, it } from "vitest";
import { coveredSeconds, leadSpans } from "../../../src/run/bill/bill.ts";

describe("coveredSeconds", () => {
  it("counts what spans share once, and gaps not at all", () => {
    expect(
      coveredSeconds([
        [5000, 6000],
        [0, 2000],
        [1000, 3000],
        [1200, 1300],
      ]),
    ).toBe(4);
    expect(coveredSeconds([])).toBe(0);
  });
});

describe("leadSpans", () => {
  it("has the last coordinator lead until now, and others for as long as they said", () => {
    const times = [
      { startedMs: 1000, seconds: 2 },
      { startedMs: 9000, seconds: 1 },
    ];
    expect(leadSpans(times, 12_000)).toEqual([
      [1000, 3000],
      [9000, 12_000],
    ]);
  });
});
