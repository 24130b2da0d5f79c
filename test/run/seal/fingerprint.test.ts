import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { fingerprint } from "../../../src/run/seal/fingerprint.ts";

const segmentOf = (text: string) => ({ bytes: Buffer.byteLength(text), sha256: sha256Hex(text) });

async function of(text: string, ...segments: string[]) {
  const storage = memoryStorage();
  await storage.replace("file", Buffer.from(text));
  return fingerprint(storage, "file", segments.map(segmentOf));
}

describe("fingerprint", () => {
  it("counts bytes and line ends, and takes the checksum", async () => {
    expect(await of("a\nbä\nc")).toEqual({
      bytes: 7,
      lines: 2,
      sha256: sha256Hex("a\nbä\nc"),
      wrongSegment: undefined,
    });
  });

  it("finds the first segment that is another, empty ones included", async () => {
    expect((await of("aabb", "aa", "", "bb", "")).wrongSegment).toBeUndefined();
    expect((await of("", "", "")).wrongSegment).toBeUndefined();
    expect((await of("aabb", "aa", "bc")).wrongSegment).toBe(1);
    expect((await of("abbb", "aa", "bb")).wrongSegment).toBe(0);
  });

  it("finds segments that the file is too short for, across the borders of reads", async () => {
    expect((await of("aab", "aa", "bb", "c")).wrongSegment).toBe(1);
    const long = "x".repeat(700_000);
    expect((await of(`${long}y${long}`, long, "y", long)).wrongSegment).toBeUndefined();
    expect((await of(`${long}z${long}`, long, "y", long)).wrongSegment).toBe(1);
  });
});
