import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  ggufHeaderBytes,
  parseGgufHeader,
  readGgufHeader,
} from "../../../../src/engines/llama/repack/gguf-header.ts";
import { temporaryFolder } from "../../models/context.ts";
import { ggufFile, pair, slowModel, someBytes } from "./tiny-gguf.ts";

async function read(content: Buffer) {
  const path = join(await temporaryFolder(), "model.gguf");
  await writeFile(path, content);
  return readGgufHeader(path);
}

describe("readGgufHeader", () => {
  it("gives pairs byte for byte, tensors, and where the data begin", async () => {
    const { bytes, pairs, tensors } = slowModel();
    const header = await read(bytes);
    expect(header).toMatchObject({ version: 3, pairCount: 5, parts: 1, alignment: 32 });
    expect(header.pairs).toEqual(Buffer.concat(pairs));
    expect(header.pairs.readUInt32LE(header.fileTypeAt)).toBe(3);
    for (const [index, { name, dimensions, type, data }] of tensors.entries()) {
      const described = header.tensors[index]!;
      expect(described).toMatchObject({ name, dimensions, type });
      const start = header.dataStart + described.offset;
      expect(bytes.subarray(start, start + data.length)).toEqual(data);
    }
  });

  it("reads version 2, another alignment and the number of parts", async () => {
    const pairs = [pair.uint32("general.alignment", 64), pair.uint16("split.count", 3)];
    const tensors = [
      { name: "a", dimensions: [1], type: 0, data: someBytes(4, 1) },
      { name: "b", dimensions: [1], type: 0, data: someBytes(4, 2) },
    ];
    const header = await read(ggufFile(pairs, tensors, { version: 2, alignment: 64 }));
    expect(header).toMatchObject({ version: 2, alignment: 64, parts: 3, fileTypeAt: undefined });
    expect(header.dataStart % 64).toBe(0);
    expect(header.tensors.map(({ offset }) => offset)).toEqual([0, 64]);
  });

  it("gives the architecture and whole numbers, in objects by their keys", async () => {
    const pairs = [
      pair.text("general.architecture", "llama"),
      pair.text("general.name", "tiny"),
      pair.uint32("llama.block_count", 2),
      pair.uint32("llama.attention.head_count", 4),
      pair.float("llama.rope.freq_base", 1),
      pair.uint32("llama", 1),
    ];
    const { metadata } = await read(ggufFile(pairs.slice(0, 5), []));
    expect(metadata).toEqual({
      general: { architecture: "llama" },
      llama: { block_count: 2, attention: { head_count: 4 } },
    });
    // A number gives way where later keys need an object.
    const odd = await read(ggufFile(pairs.toReversed(), []));
    expect(odd.metadata).toEqual(metadata);
  });

  it("reads a header that is longer than the first piece read", async () => {
    const tokens = Array.from({ length: 60_000 }, (_, index) => `token ${index} `.repeat(10));
    const header = await read(ggufFile([pair.texts("tokens", tokens)], []));
    expect(header.pairs.length).toBeGreaterThan(6_000_000);
  });

  it.each([
    ["another format", Buffer.from("PK".padEnd(40)), /not GGUF/],
    ["an unknown version", ggufFile([], [], { version: 4 }), /not GGUF of version 2 or 3/],
    ["a header that is cut off", slowModel().bytes.subarray(0, 200), /ends within its header/],
    ["a value of an unknown type", unknownValue(), /value of type 77/],
  ])("names %s", async (_name, content, message) => {
    const failed = read(content);
    await expect(failed).rejects.toMatchObject({ code: "MODEL_CORRUPT" });
    await expect(failed).rejects.toThrow(message);
  });
});

function unknownValue(): Buffer {
  const wrong = pair.uint32("key", 1);
  wrong.writeUInt32LE(77, wrong.length - 8);
  return ggufFile([wrong], []);
}

describe("parseGgufHeader", () => {
  it("asks for more at every cut before the end, and for nothing after it", () => {
    const { bytes } = slowModel();
    const whole = parseGgufHeader(bytes, "")!;
    const end = ggufHeaderBytes(whole).length;
    const first = Array.from({ length: end }, (_, cut) =>
      parseGgufHeader(bytes.subarray(0, cut), ""),
    ).findIndex((header) => header !== undefined);
    // All but the padding is needed.
    expect(end - first).toBeLessThan(32);
    expect(parseGgufHeader(bytes.subarray(0, first), "")).toEqual(whole);
  });
});

describe("ggufHeaderBytes", () => {
  it("writes back what was read", () => {
    const { bytes } = slowModel();
    const header = parseGgufHeader(bytes, "")!;
    expect(ggufHeaderBytes(header)).toEqual(bytes.subarray(0, header.dataStart));
  });
});
