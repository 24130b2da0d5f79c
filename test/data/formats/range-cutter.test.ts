import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ChunkCutter } from "../../../src/data/formats/range-cutter.ts";

const text = "aa\nbbb\nc\ndddd\nee\n";
const starts = [...text.matchAll(/(?<=^|\n)./g)].map(({ index }) => index);
const rule = { firstCutRows: 1, everyRows: 2, maxLineBytes: 1000 };

/** Cuts the text into ranges, its bytes given in chunks of a size. */
function ranges(chunkBytes: number) {
  const cutter = new ChunkCutter(rule);
  const found = [];
  for (let base = 0; base < text.length; base += chunkBytes) {
    expect(cutter.base).toBe(base);
    cutter.begin(Buffer.from(text.slice(base, base + chunkBytes)));
    for (const [at, start] of starts.entries()) {
      if (start >= base && start < base + chunkBytes) cutter.start(start, at + 1);
    }
    found.push(...cutter.endChunk());
  }
  return [...found, ...cutter.end()];
}

describe("ChunkCutter", () => {
  it("cuts at the same places with the same checksums, whatever the chunks are", () => {
    const expected = [
      [0, 3, 1, 1],
      [3, 9, 2, 2],
      [9, 17, 2, 4],
    ].map(([start, end, rows, firstLine]) => {
      const sha256 = createHash("sha256").update(text.slice(start, end)).digest("hex");
      return { start, end, rows, firstLine, sha256 };
    });
    for (const chunkBytes of [1, 2, 3, 5, 16, 17, 100]) {
      expect(ranges(chunkBytes), `chunks of ${chunkBytes}`).toEqual(expected);
    }
  });

  it("gives no range where no record started", () => {
    const cutter = new ChunkCutter(rule);
    cutter.begin(Buffer.from(" "));
    expect([...cutter.endChunk(), ...cutter.end()]).toEqual([]);
  });
});
