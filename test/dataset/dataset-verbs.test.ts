import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { dataset } from "../../src/dataset/sources.ts";
import { numbered, rejection } from "./numbered-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-verbs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const at = (name: string) => join(folder, name);
const linesFile = at("lines.jsonl");
writeFileSync(linesFile, '{"id":10,"text":"ten"}\n{"id":11,"text":"eleven"}\n');

/** A Parquet file of three rows. */
async function parquetFile(): Promise<string> {
  const path = at("table.parquet");
  if (existsSync(path)) return path;
  const rows = [20, 21, 22].map((id) => ({ id, text: `row ${id}`, score: id / 8 }));
  await dataset.from(rows).writeParquet(path);
  return path;
}

describe("reading", () => {
  it("takes all rows, or batches of them", async () => {
    const rows = dataset.from(numbered(7)).map(({ id }) => ({ id }));
    expect(await rows.takeAll()).toEqual(numbered(7).map(({ id }) => ({ id })));
    const ids = await Array.fromAsync(rows.iterBatches({ batchSize: 3 }), (batch) =>
      batch.map(({ id }) => id),
    );
    expect(ids).toEqual([[0, 1, 2], [3, 4, 5], [6]]);
    const columns = rows.iterBatches({ batchSize: 3, batchFormat: "columns", dropLast: true });
    expect(await Array.fromAsync(columns)).toEqual([{ id: [0, 1, 2] }, { id: [3, 4, 5] }]);
    await expect(rows.iterBatches({ batchSize: 0 }).next()).rejects.toThrow("batchSize: 0");
  });

  it("keeps none of the rows at a limit of 0, before and behind a stage", async () => {
    const rows = dataset.from(numbered(3));
    expect(await rows.limit(0).takeAll()).toEqual([]);
    expect(
      await rows
        .filter(() => true)
        .limit(0)
        .count(),
    ).toBe(0);
    const { summary, error } = await rows.limit(0).run({ output: at("none") });
    expect([error, summary.status, summary.rows.total]).toEqual([undefined, "SUCCESS", 0]);
  });

  it("reads the columns of Parquet and Arrow that are wanted, with their types", async () => {
    const table = await parquetFile();
    const some = dataset.parquet(table, { columns: ["text", "id"] });
    expect(await some.take(1)).toEqual([{ text: "row 20", id: 20 }]);
    const schema = z.object({ id: z.number(), score: z.number() });
    const typed = dataset.parquet(table, {
      columns: ["score"],
      schema: schema.pick({ score: true }),
    });
    expectTypeOf(typed.take).returns.resolves.items.toEqualTypeOf<{ score: number }>();
    expect(await typed.take(1)).toEqual([{ score: 2.5 }]);
    const wrong = await rejection(dataset.parquet(table, { columns: ["txt"] }).take(1));
    expect(wrong).toMatchObject({ code: "COLUMN_UNKNOWN" });
    const arrow = dataset.arrow("test/golden/arrow/types.arrow");
    expect((await arrow.take(1)).length).toBe(1);
  });

  it("knows the columns of files, and says where it inferred them", async () => {
    const table = await parquetFile();
    const columns = await dataset
      .parquet(table)
      .filter(() => false)
      .rename({ id: "key" })
      .select("key", "score")
      .schema();
    expect(columns).toMatchObject([
      { name: "key", type: { kind: "integer" } },
      { name: "score", type: { kind: "number", bits: 64 } },
    ]);
    expect(columns.some((column) => "inferredFromRows" in column)).toBe(false);
    const inferred = await dataset.jsonl(linesFile).schema();
    expect(inferred).toMatchObject([
      { name: "id", inferredFromRows: 2 },
      { name: "text", inferredFromRows: 2 },
    ]);
  });
});

describe("putting together", () => {
  it("joins rows of several formats and datasets with stages, in order, as a run too", async () => {
    let calls = 0;
    const counted = dataset.from([{ id: 1, text: "own" }]).map((row) => {
      calls++;
      return { ...row, made: new Date(row.id) };
    });
    const all = dataset
      .jsonl(linesFile)
      .union(dataset.parquet(await parquetFile()), counted)
      .map((row) => ({ id: (row as { id: number }).id, made: "made" in row ? row.made : null }));
    const ids = [10, 11, 20, 21, 22, 1];
    expect((await all.takeAll()).map(({ id }) => id)).toEqual(ids);
    expect((await all.takeAll()).at(-1)?.made).toEqual(new Date(1));
    const output = at("united.jsonl");
    const first = await all.run({ output });
    expect([first.error, first.resumed, first.summary.rows.answered]).toEqual([undefined, 0, 6]);
    const text = readFileSync(output, "utf8");
    expect(
      text
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line).id),
    ).toEqual(ids);
    const before = calls;
    expect((await all.run({ output, onEvent() {} })).resumed).toBeGreaterThanOrEqual(6);
    expect(calls).toBe(before);
    expect(() => all.job({ output })).toThrow("put together first");
  });

  it("keeps what a step made, with its types, for this program and later calls", async () => {
    let calls = 0;
    const made = () =>
      dataset.from(numbered(4)).map(({ id }) => {
        calls++;
        return { id, at: new Date(id) };
      });
    const kept = await made().materialize(at("kept"));
    expect(await kept.count()).toBe(4);
    expect((await kept.map((row) => ({ ms: row.at.getTime() })).takeAll()).at(-1)).toEqual({
      ms: 3,
    });
    await made().materialize(at("kept"), { onEvent() {} });
    expect(calls).toBe(4);
    const failing = dataset.from(numbered(3)).map(({ id }) => {
      if (id === 1) throw new Error("one");
      return { id };
    });
    const error = await rejection(failing.materialize(at("failing")));
    expect(error).toMatchObject({ code: "ROW_FAILED" });
    expect(error.message).toContain("1 of 3 rows");
    const rest = await failing.materialize(at("rest"), { job: { maxFailedRows: 1 } });
    expect(await rest.takeAll()).toEqual([{ id: 0 }, { id: 2 }]);
    for (const name of ["kept.parquet", "kept.csv", "kept.json", "kept.ndjson", "kept.jsonl.gz"]) {
      expect(await rejection(made().materialize(at(name)))).toMatchObject({ code: "UNSUPPORTED" });
      expect(existsSync(`${at(name)}.sluice`)).toBe(false);
    }
    expect(calls).toBe(4);
    const none = dataset.from(numbered(3)).filter(() => false);
    for (const name of ["empty", "empty.jsonl"]) {
      const empty = await none.shuffle().materialize(at(name));
      expect([await empty.count(), await empty.takeAll()]).toEqual([0, []]);
    }
  });

  it("takes the smaller one of its own limit and that of its job", async () => {
    const five = dataset
      .from(numbered(9))
      .limit(5)
      .map((row) => row);
    for (const [limit, rows] of [
      [3, 3],
      [7, 5],
    ] as const) {
      const { summary } = await five.run({ output: at(`limit-${limit}`), job: { limit } });
      expect(summary.rows.answered).toBe(rows);
    }
  });
});
