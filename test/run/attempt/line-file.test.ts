import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage, Writer } from "../../../src/data/storage/storage.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { LineFile } from "../../../src/run/attempt/line-file.ts";
import { errorOf } from "../run-fixture.ts";

const long = "x".repeat(80_000);

/** A file of lines, and what its listener heard. */
function fileOn(storage: Storage) {
  const heard = { drained: 0, failures: [] as unknown[] };
  const file = new LineFile(storage, "lines", {
    onDrain: () => heard.drained++,
    onFailure: (error) => heard.failures.push(error),
  });
  return { file, heard };
}

describe("LineFile", () => {
  it("writes lines as they come, with their checksum and size", async () => {
    const storage = memoryStorage();
    const { file, heard } = fileOn(storage);
    const lines = ["first", `ä${long}`, long, "", "last"];
    for (const line of lines) {
      file.add(line);
      await file.drained();
    }
    const stored = await file.close();
    const bytes = await storage.read("lines");
    expect(Buffer.from(bytes).toString()).toBe(`${lines.join("\n")}\n`);
    expect(stored).toEqual({ path: "lines", sha256: sha256Hex(bytes), bytes: bytes.length });
    expect(heard).toEqual({ drained: 2, failures: [] });
  });

  it("is an empty file where nothing was added", async () => {
    const storage = memoryStorage();
    const { file } = fileOn(storage);
    expect(file.isEmpty).toBe(true);
    expect(await file.close()).toMatchObject({ bytes: 0 });
    expect(await storage.read("lines")).toHaveLength(0);
  });

  it("says that it is full while a write is slow, and when it no longer is", async () => {
    const { file, heard } = fileOn(memoryStorage());
    file.add(long);
    file.add(long);
    expect(file.isFull).toBe(false);
    file.add(long);
    file.add(long);
    expect(file.isFull).toBe(true);
    await file.drained();
    expect(file.isFull).toBe(false);
    expect(heard.drained).toBeGreaterThan(0);
    await file.close();
  });

  it("tells of a failed write once, takes no more, and throws it at the end", async () => {
    const failure = new Error("the disk is full");
    const writer: Writer = {
      write: () => Promise.reject(failure),
      close: () => Promise.resolve(),
      abort: () => Promise.resolve(),
    };
    const storage = { ...memoryStorage(), writer: async () => writer } as Storage;
    const { file, heard } = fileOn(storage);
    for (let line = 0; line < 6; line++) file.add(long);
    await file.drained();
    expect(heard.failures).toEqual([failure]);
    await expect(file.close()).rejects.toBe(failure);
  });

  it("leaves nothing where it is given up", async () => {
    const storage = memoryStorage();
    const { file } = fileOn(storage);
    for (let line = 0; line < 3; line++) file.add(long);
    await file.abort();
    expect((await errorOf(storage.read("lines"))).code).toBe("NOT_FOUND");
  });

  it("is not closed as an empty file where it was given up meanwhile", async () => {
    const storage = memoryStorage();
    const { file } = fileOn(storage);
    file.add("line");
    const [closed] = await Promise.all([errorOf(file.close()), file.abort()]);
    expect(closed.message).toContain("it was given up");
    expect(file.isEmpty).toBe(false);
    expect(await storage.stat("lines")).toBeUndefined();
  });
});
