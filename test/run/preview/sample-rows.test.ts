import { describe, expect, it } from "vitest";
import { firstRows, spreadRows } from "../../../src/run/preview/sample-rows.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";

const indexes = (rows: readonly { index: number }[]) => rows.map(({ index }) => index);

describe("firstRows", () => {
  it("takes rows from as many tasks as it needs", async () => {
    const { context } = await plannedRun(rowsOf(10), { shard: { rows: 4 } });
    expect(indexes(await firstRows(context, 6))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(indexes(await firstRows(context, 99))).toHaveLength(10);
    expect(await firstRows(context, 0)).toEqual([]);
  });

  it("has a broken row's cause, and of a sample only its rows", async () => {
    const { context } = await plannedRun(['{"a":1}', "{"], { shard: { rows: 4 } });
    const [fine, broken] = await firstRows(context, 2);
    expect(fine).toMatchObject({ value: { a: 1 }, line: 1 });
    expect(broken).toMatchObject({ error: { code: "JSON_INVALID" }, line: 2 });
    const sampled = await plannedRun(rowsOf(40), { shard: { rows: 8 }, sample: 5 });
    const rows = indexes(await firstRows(sampled.context, 40));
    expect(rows).toHaveLength(5);
    expect(indexes(await spreadRows(sampled.context, 40))).toEqual(rows);
  });
});

describe("spreadRows", () => {
  it("reads a small input whole", async () => {
    const { context } = await plannedRun(rowsOf(30), { shard: { rows: 2 } });
    expect(indexes(await spreadRows(context, 30))).toEqual([...Array(30).keys()]);
  });

  it("takes the starts of ten tasks, evenly spread over a large one", async () => {
    const { context } = await plannedRun(rowsOf(1000), { shard: { rows: 10 } });
    const rows = indexes(await spreadRows(context, 20));
    expect(rows).toEqual([...Array(10).keys()].flatMap((task) => [task * 100, task * 100 + 1]));
  });
});
