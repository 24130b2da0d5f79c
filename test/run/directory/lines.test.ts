import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { fileChunks, linesOf, readLines } from "../../../src/run/directory/lines.ts";

async function storageWith(text: string) {
  const storage = memoryStorage();
  await storage.replace("a", Buffer.from(text));
  return storage;
}

describe("stored lines", () => {
  it.each([
    ["", []],
    ["one\ntwo\n", ["one", "two"]],
    ["one\n\ntwo", ["one", "", "two"]],
  ])("are read without their ends: %j", async (text, lines) => {
    const storage = await storageWith(text);
    expect(await Array.fromAsync(readLines(storage, "a"))).toEqual(lines);
    const ends = await Array.fromAsync(linesOf(await storage.open("a")));
    expect(ends.at(-1)?.endsInNewline ?? true).toBe(text === "" || text.endsWith("\n"));
  });

  it("may lie across pieces of a file, in the middle of a letter", async () => {
    const line = "ä".repeat(limits.readChunkBytes / 2);
    const storage = await storageWith(`x${line}\n${line}`);
    expect(await Array.fromAsync(readLines(storage, "a"))).toEqual([`x${line}`, line]);
    const pieces = await Array.fromAsync(fileChunks(storage, "a"));
    expect(pieces.length).toBeGreaterThan(2);
    expect(Buffer.concat(pieces).toString()).toBe(`x${line}\n${line}`);
  });
});
