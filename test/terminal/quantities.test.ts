import { expect, it } from "vitest";
import { batchesOf, counted, dollars, sized, spentOf } from "../../src/terminal/quantities.ts";

it("writes counts and sizes for people", () => {
  expect([0, 1, 1000].map((count) => counted(count, "row"))).toEqual([
    "0 rows",
    "1 row",
    "1,000 rows",
  ]);
  expect([1, 999, 1000, 9940, 9960, 999_400, 999_600, 2.5e15].map(sized)).toEqual([
    "1 byte",
    "999 bytes",
    "1.0 kB",
    "9.9 kB",
    "10 kB",
    "999 kB",
    "1.0 MB",
    "2500 TB",
  ]);
});

it("writes money to the cent, and small sums to three digits", () => {
  expect([0, 1, 1.999, 12_345.678, 0.5, 0.012345, 0.00000123, 1e-8].map(dollars)).toEqual([
    "$0.00",
    "$1.00",
    "$2.00",
    "$12,345.68",
    "$0.5",
    "$0.0123",
    "$0.00000123",
    "below $0.000001",
  ]);
});

it("writes a provider's batches by their states", () => {
  expect(batchesOf([])).toEqual([]);
  const states = [
    { state: "in_progress", batches: 2, requests: 10_000, done: 4120 },
    { state: "finalizing", batches: 1, requests: 10, done: 10 },
  ];
  expect(batchesOf(states)).toEqual([
    "3 batches: 2 in_progress (4,120 of 10,000 requests), 1 finalizing",
  ]);
});

it("writes what was spent of the limits that there are", () => {
  const spent = { tokens: 1200, usd: 0.25, minutes: 3.14 };
  expect(spentOf({ spent, budget: { tokens: 5000, usd: 2, minutes: 10 } })).toEqual([
    "1,200/5,000 tokens",
    "$0.25/$2.00",
    "3.1/10 minutes",
  ]);
  expect(spentOf({ spent, budget: {} })).toEqual([]);
});
