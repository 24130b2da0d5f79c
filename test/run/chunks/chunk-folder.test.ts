import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { limits } from "../../../src/foundation/limits.ts";
import {
  abandon,
  assertFree,
  type ChunkRecord,
  chunkPath,
  claim,
  complete,
  filesOf,
  isWhole,
  readRecord,
  sharePath,
} from "../../../src/run/chunks/chunk-folder.ts";

const record: ChunkRecord = {
  version: 1,
  request: "digest",
  isComplete: false,
  ending: ".jsonl",
  chunks: 2,
  workers: 1,
  files: [],
};
const whole: ChunkRecord = {
  ...record,
  isComplete: true,
  files: [
    { rows: 1, bytes: 3, sha256: "a" },
    { rows: 1, bytes: 3, sha256: "b" },
  ],
};

async function fill(storage: Storage): Promise<void> {
  for (const path of filesOf(record)) await storage.replace(path, Buffer.from("{}\n"));
}

async function pathsIn(storage: Storage): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path } of storage.list("")) paths.push(path);
  return paths;
}

describe("a folder of chunks", () => {
  it("has these names", () => {
    expect(chunkPath(12, ".parquet")).toBe("part_12.parquet");
    expect(sharePath(3)).toBe("workers/3.txt");
    expect([...filesOf(record)]).toEqual([
      "metadata.txt",
      "workers/0.txt",
      "part_0.jsonl",
      "part_1.jsonl",
    ]);
  });

  it("is whole when every file is there in its size, and said to be", async () => {
    const storage = memoryStorage();
    await claim(storage, record, undefined);
    await fill(storage);
    expect(await isWhole(storage, (await readRecord(storage))!)).toBe(false);
    await complete(storage, whole);
    expect(await readRecord(storage)).toEqual(whole);
    expect(await isWhole(storage, whole)).toBe(true);
    for (const path of filesOf(whole)) {
      await storage.remove(path);
      expect(await isWhole(storage, whole), path).toBe(false);
      await fill(storage);
    }
    await storage.replace("part_1.jsonl", Buffer.from("torn"));
    expect(await isWhole(storage, whole)).toBe(false);
  });

  it("belongs to the cut that was first", async () => {
    const storage = memoryStorage();
    await claim(storage, record, undefined);
    await expect(claim(storage, { ...record, request: "other" }, undefined)).rejects.toMatchObject({
      code: "OUTPUT_OCCUPIED",
    });
    // Two of the same request write the same files.
    await claim(storage, record, undefined);
    expect(await readRecord(storage)).toEqual(record);
  });

  it("gives way with what its record names, and with nothing else", async () => {
    const storage = memoryStorage();
    await claim(storage, record, undefined);
    await fill(storage);
    await storage.replace("part_2.jsonl", Buffer.from("mine"));
    await storage.replace("notes.txt", Buffer.from("mine"));
    await expect(assertFree(storage, record)).rejects.toMatchObject({
      message: expect.stringContaining("part_2.jsonl"),
    });
    await claim(storage, { ...record, request: "other", chunks: 1 }, record);
    expect(await pathsIn(storage)).toEqual(["_chunks.json", "notes.txt", "part_2.jsonl"]);
    await abandon(storage, record);
    expect(await pathsIn(storage)).toEqual(["notes.txt", "part_2.jsonl"]);
  });

  it("loses what a killed cut was writing, once that is surely dead", async () => {
    const storage = memoryStorage();
    const ages = new Map([
      [".tmp-old-part_0.jsonl", limits.staleLeftoverMs],
      [".tmp-new-part_1.jsonl", limits.staleLeftoverMs - 1],
    ]);
    storage.leftovers = async function* (prefix) {
      if (prefix !== "part_") return;
      for (const [path, idleMs] of ages) yield { path, idleMs, bytes: 4 };
    };
    for (const path of ages.keys()) await storage.replace(path, Buffer.from("half"));
    await claim(storage, record, record);
    expect(await pathsIn(storage)).toEqual([".tmp-new-part_1.jsonl", "_chunks.json"]);
  });

  it("is not free where a name could be taken for a chunk's, in whatever format", async () => {
    const names = ["part_0.parquet", "part_9.csv.gz", "workers/9.txt", "metadata.txt"];
    for (const name of names) {
      const storage = memoryStorage();
      await storage.replace(name, Buffer.from("mine"));
      await expect(assertFree(storage), name).rejects.toMatchObject({ code: "OUTPUT_OCCUPIED" });
    }
    const storage = memoryStorage();
    for (const name of ["part_x.jsonl", "workers/notes.txt", "metadata.txt.old", "part_1/a.b"]) {
      await storage.replace(name, Buffer.from("mine"));
    }
    await assertFree(storage);
  });
});
