import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { EncodedFile, encodeFile } from "../../../src/run/output/encoded-file.ts";
import { writeWhole } from "../../../src/run/output/hashed-file.ts";
import { errorOf, pathsOf } from "../run-fixture.ts";

const linesOf = (count: number) => Array.from({ length: count }, (_, row) => `{"row":${row}}`);

async function* batchesOf(lines: readonly string[]) {
  for (let start = 0; start < lines.length; start += 100) yield lines.slice(start, start + 100);
}

describe("an encoded file", () => {
  it("appears whole, with what a manifest says of it", async () => {
    const storage = memoryStorage();
    const encoding = { format: { name: "json" }, columns: [] } as const;
    const file = await encodeFile(storage, "a/rows.json", batchesOf(linesOf(1234)), encoding);
    const bytes = await storage.read("a/rows.json");
    expect(file).toEqual({ path: "a/rows.json", sha256: sha256Hex(bytes), bytes: bytes.length });
    const rows = JSON.parse(Buffer.from(bytes).toString());
    expect(rows.map(({ row }: { row: number }) => row)).toEqual(Array.from(rows.keys()));
    expect(rows).toHaveLength(1234);
  });

  it("does not appear where what fills it fails", async () => {
    const storage = memoryStorage();
    const encoding = { format: { name: "jsonl" }, columns: [] } as const;
    const file = await EncodedFile.open(storage, "rows.jsonl", encoding);
    const error = await errorOf(
      writeWhole(file, async () => {
        for (const line of linesOf(1234)) await file.add(line);
        throw new Error("the row is gone");
      }),
    );
    expect(error.message).toContain("the row is gone");
    expect(file.rows).toBe(1234);
    expect(await pathsOf(storage, "")).toEqual([]);
  });
});
