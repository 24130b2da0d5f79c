import { describe, expect, it } from "vitest";
import type { BenchResult } from "../../bench/result.ts";
import { resultsTable, withResults } from "../../bench/table.ts";

const result = (name: string, value: number): BenchResult => ({
  ...{ name, value, unit: "rows/s", baseline: 100, ratio: value / 100, goal: 0.5 },
});

describe("withResults", () => {
  const before = [
    resultsTable([result("one", 60), result("the other", 40)]),
    "measured before",
    "and why",
  ].join("\n\n");

  it("replaces figures of the same name, and leaves the others and the words", () => {
    const text = withResults(before, [result("the other", 70)], "measured now");
    const [table, ...words] = text.split("\n\n");
    expect(table).toBe(resultsTable([result("one", 60), result("the other", 70)]));
    expect(words).toEqual(["measured now", "measured before", "and why"]);
  });

  it("puts new figures behind, with all columns aligned", () => {
    const [table] = withResults(before, [result("a third, of a longer name", 1234)], "").split(
      "\n\n",
    );
    const lines = table!.split("\n");
    expect(lines.at(-1)).toContain("a third, of a longer name | 1,234 rows/s");
    expect(new Set(lines.map((line) => line.length)).size).toBe(1);
  });

  it("makes the table where there is none", () => {
    const text = withResults("", [result("one", 60)], "measured now");
    expect(text).toBe(`${resultsTable([result("one", 60)])}\n\nmeasured now`);
  });
});
