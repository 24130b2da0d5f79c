import { zstdCompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  decompressLz4Frame,
  decompressZstd,
} from "../../../../src/data/formats/arrow/decompress.ts";

/** A frame of blocks, each behind its length. */
const frameOf = (...blocks: Buffer[]) => {
  const sized = blocks.flatMap((block) => {
    const size = Buffer.alloc(4);
    size.writeUInt32LE(block.length);
    return [size, block];
  });
  return Buffer.concat([Buffer.from("04224d18604082", "hex"), ...sized, Buffer.alloc(4)]);
};

/** `abcabc…`: three bytes as they are, then nine from three bytes before. */
const block = Buffer.from([0x35, 0x61, 0x62, 0x63, 3, 0, 0x10, 0x2e]);

describe("LZ4 frames", () => {
  it("repeat what lies before, also in an earlier block", () => {
    expect(text(frameOf(block), 13)).toBe("abcabcabcabc.");
    // Ten bytes from thirteen before, which lie in the first block.
    const next = Buffer.from([0x06, 13, 0, 0x10, 0x21]);
    expect(text(frameOf(block, next), 24)).toBe("abcabcabcabc.abcabcabca!");
  });

  it("have lengths of several bytes, of what is there and of what is repeated", () => {
    const plain = Buffer.concat([Buffer.from([0xf0, 255, 10]), Buffer.alloc(280, "a")]);
    expect(text(frameOf(plain), 280)).toBe("a".repeat(280));
    const repeated = Buffer.from([0x1f, 0x62, 1, 0, 255, 1, 0x10, 0x2e]);
    expect(text(frameOf(repeated), 277)).toBe(`${"b".repeat(276)}.`);
  });

  it.each([
    ["no frame", Buffer.alloc(20), 1],
    ["another length", frameOf(block), 12],
    ["a length that cannot be", frameOf(block), 1e9],
    ["a block that is cut off", frameOf(block).subarray(0, 15), 13],
    ["a place before the start", frameOf(Buffer.from([0x15, 0x61, 3, 0, 0])), 10],
    ["literals beyond the block", frameOf(Buffer.from([0x90, 0x61])), 9],
  ])("of %s are refused", (_name, frame, length) => {
    expect(() => decompressLz4Frame(frame, length)).toThrow();
  });

  const text = (frame: Buffer, length: number) =>
    Buffer.from(decompressLz4Frame(frame, length)).toString();
});

describe("zstd", () => {
  it("gives bytes that begin where typed arrays may, and no others than were said", () => {
    const frame = zstdCompressSync(Buffer.from("abc"));
    const content = decompressZstd(frame, 3);
    expect([Buffer.from(content).toString(), content.byteOffset % 8]).toEqual(["abc", 0]);
    for (const length of [2, 4]) expect(() => decompressZstd(frame, length)).toThrow();
  });
});
