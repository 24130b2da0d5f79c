import { expect, it } from "vitest";
import { noUsage } from "../../../src/foundation/inference.ts";
import { speedOf } from "../../../src/run/advise/speed.ts";

const costs = (count: number, secondsOf: (at: number) => number) =>
  Array.from({ length: count }, (_, at) => ({ task: 0, usage: noUsage, seconds: secondsOf(at) }));

it("divides the time that rows took by those that were asked at once", () => {
  const measured = { costs: costs(40, () => 2), together: 8, seconds: 10 };
  const speed = speedOf(measured, 3, 8, 1000);
  expect(speed).toEqual({
    startSeconds: 3,
    rowSeconds: 2,
    secondsPerRow: { estimated: 0.25, low: 0.25, high: 0.25 },
  });
});

it("has bounds that rows of different lengths move apart", () => {
  const measured = { costs: costs(40, (at) => (at % 2 === 0 ? 1 : 3)), together: 6, seconds: 14 };
  const { secondsPerRow, rowSeconds } = speedOf(measured, 0, 8, 1000);
  expect(rowSeconds).toBe(2);
  expect(secondsPerRow.estimated).toBeCloseTo(0.25, 6);
  expect(secondsPerRow.low).toBeLessThan(0.25);
  // Six were asked at once on the average, for the last were alone.
  expect(secondsPerRow.high).toBeGreaterThan(2 / 6);
});
