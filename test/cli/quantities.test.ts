import { expect, it } from "vitest";
import { counted, sized } from "../../src/cli/quantities.ts";

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
