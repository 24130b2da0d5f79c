import { describe, expect, it } from "vitest";
import { OutcomeTable } from "../../../src/run/attempt/outcomes.ts";
import type { Task } from "../../../src/run/plan/plan.ts";

const task: Task = { task: 2, firstRow: 100, rows: 5, slices: [] };
const place = { offset: 2 ** 40, bytes: 9 };

describe("OutcomeTable", () => {
  it("begins with every row open, and knows rows by their stable index", () => {
    const table = new OutcomeTable(task);
    expect(table.open).toBe(5);
    expect([99, 100, 104, 105].map((index) => table.isOpen(index))).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect(table.of(105)).toBe("excluded");
  });

  it("keeps outcome and place, also beyond four gigabytes", () => {
    const table = new OutcomeTable(task);
    expect(table.settle(102, "answered", place)).toBe(true);
    expect(table.of(102)).toBe("answered");
    expect(table.place(102)).toEqual(place);
    expect(table.open).toBe(4);
  });

  it("gives a row one outcome only", () => {
    const table = new OutcomeTable(task);
    table.settle(102, "failed", place);
    expect(table.settle(102, "answered", { offset: 0, bytes: 1 })).toBe(false);
    expect(table.of(102)).toBe("failed");
    expect(table.place(102)).toEqual(place);
    expect([table.open, table.failures]).toEqual([4, 1]);
  });

  it("takes no outcome for a row that is not its own", () => {
    const table = new OutcomeTable({ ...task, only: "101,103-104", onlyRows: 3 });
    expect(table.open).toBe(3);
    for (const index of [99, 100, 102, 105]) {
      expect(table.settle(index, "answered", place)).toBe(false);
    }
    expect(table.of(100)).toBe("excluded");
    expect(table.open).toBe(3);
  });
});
