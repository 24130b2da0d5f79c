import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { InputRow } from "../../../src/data/row.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { type ChunkForm, ChunkWriter } from "../../../src/run/chunks/chunk-writer.ts";

const lines: ChunkForm = {
  encoding: { format: { name: "jsonl" }, columns: [] },
  ending: ".jsonl",
  isCopied: true,
};
const zipped: ChunkForm = {
  ...lines,
  encoding: { format: { name: "jsonl", compression: "gzip" }, columns: [] },
  ending: ".jsonl.gz",
};

const rowsOf = (...texts: string[]): InputRow[] =>
  texts.map((raw, index) => ({ index, file: "in.jsonl", line: index + 1, raw }));
const broken = (code: "JSON_INVALID" | "UTF8_INVALID" | "LINE_TOO_LONG"): InputRow => ({
  ...rowsOf("{x")[0]!,
  error: new SluiceError(code, "", { file: "in.jsonl", line: 1 }),
});

describe("ChunkWriter", () => {
  it("fills chunks across calls, and leaves those empty that nothing is left for", async () => {
    const storage = memoryStorage();
    const writer = new ChunkWriter(storage, [2, 2, 0, 1, 0, 0], lines);
    await writer.add(rowsOf("1"));
    await writer.add(rowsOf("2", "3"));
    await writer.add([]);
    await writer.add(rowsOf("4", "5"));
    const files = await writer.end();
    expect(files.map(({ rows }) => rows)).toEqual([2, 2, 0, 1, 0, 0]);
    expect(files.map(({ bytes }) => bytes)).toEqual([4, 4, 0, 2, 0, 0]);
    const texts = await Promise.all(
      files.map(async (_, at) => Buffer.from(await storage.read(`part_${at}.jsonl`)).toString()),
    );
    expect(texts).toEqual(["1\n2\n", "3\n4\n", "", "5\n", "", ""]);
  });

  it("writes more chunks than it closes at once", async () => {
    const storage = memoryStorage();
    const writer = new ChunkWriter(storage, Array(50).fill(1), lines);
    await writer.add(rowsOf(...Array.from({ length: 50 }, (_, at) => `${at}`)));
    expect(writer.writtenChunks).toBeGreaterThan(30);
    expect(await writer.end()).toHaveLength(50);
    expect(Buffer.from(await storage.read("part_49.jsonl")).toString()).toBe("49\n");
  });

  it("compresses, and refuses bytes there that text cannot hold", async () => {
    const storage = memoryStorage();
    const writer = new ChunkWriter(storage, [2], zipped);
    await writer.add([...rowsOf('{"a":1.0}'), broken("JSON_INVALID")]);
    await writer.end();
    const bytes = await storage.read("part_0.jsonl.gz");
    expect(gunzipSync(bytes).toString()).toBe('{"a":1.0}\n{x\n');
    const odd = { ...broken("UTF8_INVALID"), rawBase64: "/w==" };
    const refusing = new ChunkWriter(memoryStorage(), [1], zipped);
    await expect(refusing.add([odd])).rejects.toMatchObject({ code: "INPUT_UNREADABLE" });
    await refusing.abort();
  });

  it("leaves nothing of a chunk that is given up", async () => {
    const storage = memoryStorage();
    const writer = new ChunkWriter(storage, [1, 2], lines);
    await writer.add(rowsOf("1", "2"));
    await expect(writer.add([broken("LINE_TOO_LONG")])).rejects.toMatchObject({
      hint: "raise --max-line-bytes",
    });
    await writer.abort();
    const paths: string[] = [];
    for await (const { path } of storage.list("")) paths.push(path);
    expect(paths).toEqual(["part_0.jsonl"]);
  });
});
