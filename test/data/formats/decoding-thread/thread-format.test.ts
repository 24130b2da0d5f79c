import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { arrowFormat } from "../../../../src/data/formats/arrow/arrow.ts";
import { decodedInThread } from "../../../../src/data/formats/decoding-thread/thread-format.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import type { RandomReader } from "../../../../src/data/storage/storage.ts";
import { parseSpecials } from "../../../../src/foundation/exact-json.ts";
import type { JsonObject } from "../../../../src/foundation/json.ts";
import { formatConformance } from "../../../conformance/format-conformance.ts";
import { readerOf, scanAll } from "../reading.ts";

const golden = join(import.meta.dirname, "../../../golden");
const read = (path: string) => readFileSync(join(golden, path));

for (const [format, path, beside] of [
  [
    decodedInThread(parquetFormat()),
    "parquet/pyarrow-types.parquet",
    "parquet/pyarrow-types.jsonl",
  ],
  [decodedInThread(arrowFormat()), "arrow/odd.arrow", "arrow/odd.jsonl"],
] as const) {
  const lines = read(beside).toString().trimEnd().split("\n");
  const rows = lines.map((line) => parseSpecials(line) as JsonObject);
  const sample = { name: path, content: read(path), rows };
  const tested = { make: () => format, sharesBytes: true, needsLength: true };
  formatConformance(tested, [sample]);
}

describe("a format that is decoded in a thread", () => {
  const content = read("parquet/pyarrow-v1-zstd.parquet");

  it("gives the same rows as in this one, faults among them", async () => {
    const plain = read("parquet/pyarrow-none.parquet");
    plain[plain.indexOf("turn 0 of 9")] = 0xff;
    const rows = await Array.fromAsync(await scanned(plain), (slice) => rowsIn(plain, slice));
    expect(rows.flat()).toHaveLength(200);
    const faults = rows.flat().filter(({ error }) => error);
    expect(faults.map(({ error, line }) => [line, error!.code, error!.place.field])).toEqual([
      [10, "UTF8_INVALID", "conversation"],
    ]);
    expect(Buffer.from(faults[0]!.rawBase64!, "base64")).toContain(0xff);
  });

  const scanned = (bytes: Buffer) =>
    scanAll(decodedInThread(parquetFormat()), bytes, { everyRows: 30 });
  const rowsIn = async (bytes: Buffer, slice: Awaited<ReturnType<typeof scanned>>[number]) => {
    const format = decodedInThread(parquetFormat());
    const batches = format.read(readerOf(bytes), slice, 0, { maxLineBytes: 1e6 });
    return (await Array.fromAsync(batches)).flat();
  };

  it("reads into memory that is there, where the storage can", async () => {
    const lengths: number[] = [];
    const reader: RandomReader = {
      ...readerOf(content),
      async readInto(target, offset) {
        lengths.push(target.length);
        return content.copy(target, 0, offset);
      },
    };
    const [slice] = await scanned(content);
    const format = decodedInThread(parquetFormat());
    const rows = await Array.fromAsync(format.read(reader, slice!, 0, { maxLineBytes: 1e6 }));
    expect(rows.flat()).toHaveLength(30);
    expect(lengths.length).toBeGreaterThan(0);
  });

  it("throws what the storage threw, itself", async () => {
    const broken = new Error("the disk is gone");
    const reader = { ...readerOf(content), read: () => Promise.reject(broken) };
    const format = decodedInThread(parquetFormat());
    await expect(format.rowCount!(reader, "in")).rejects.toBe(broken);
    await expect(format.columns!(reader, "in")).rejects.toBe(broken);
    expect(await format.rowCount!(readerOf(content), "in")).toBe(200);
  });
});
