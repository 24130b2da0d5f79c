import { describe, expect, it } from "vitest";
import type { Column } from "../../../src/data/columns.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { columnsOfLines, isSameTable } from "../../../src/run/output/own-columns.ts";
import { errorOf } from "../run-fixture.ts";

const text = (name: string, nullable = false): Column => ({
  name,
  type: { kind: "string" },
  nullable,
});

async function columnsOf(rows: readonly object[], known: readonly Column[] = []) {
  const storage = memoryStorage();
  const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  await storage.replace("part.jsonl", Buffer.from(lines));
  return await columnsOfLines(storage, "part.jsonl", known);
}

describe("columns of a part", () => {
  it("keep what the input says, and may be null where rows alone tell", async () => {
    const found = await columnsOf([{ id: "a", answer: "x" }, { id: "b" }], [text("id")]);
    expect(found).toEqual([text("id"), text("answer", true)]);
    expect(await columnsOf([{ id: "a" }])).toEqual([text("id", true)]);
    expect(await columnsOf([], [text("id")])).toEqual([text("id")]);
  });

  it("are not more than a table can have", async () => {
    const row = Object.fromEntries(
      Array.from({ length: limits.maxColumns + 1 }, (_, at) => [`field${at}`, ""]),
    );
    const error = await errorOf(columnsOf([row]));
    expect([error.code, error.place.field]).toEqual(["UNSUPPORTED", "output.format"]);
  });

  it("make the same table where names are the same, or of Parquet also types", () => {
    const other: Column = { name: "id", type: { kind: "boolean" }, nullable: false };
    expect(isSameTable({ name: "csv" }, [text("id")], [other])).toBe(true);
    expect(isSameTable({ name: "csv" }, [text("id")], [text("id"), text("b")])).toBe(false);
    expect(isSameTable({ name: "parquet" }, [text("id")], [other])).toBe(false);
    expect(isSameTable({ name: "parquet" }, [text("id")], [text("id")])).toBe(true);
    expect(isSameTable({ name: "json" }, [text("id")], [])).toBe(true);
  });
});
