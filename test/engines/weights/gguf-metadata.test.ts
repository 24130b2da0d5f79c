import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseGgufMetadata, readGgufMetadata } from "../../../src/engines/weights/gguf-metadata.ts";
import { temporaryFolder } from "../models/context.ts";
import { ggufFile, pair } from "../tiny-gguf.ts";

async function read(content: Buffer) {
  const path = join(await temporaryFolder(), "model.gguf");
  await writeFile(path, content);
  return readGgufMetadata(path);
}

/** Pairs of many kinds, and a tensor. */
function someModel(): Buffer {
  const pairs = [
    pair.text("general.architecture", "llama"),
    pair.texts("tokenizer.ggml.tokens", ["<s>", "é", ""]),
    pair.floats("tokenizer.ggml.scores", [0.5, -1]),
    pair.bool("tokenizer.ggml.add_bos_token", true),
    pair.uint16("split.count", 3),
    pair.uint32("llama.block_count", 2),
  ];
  return ggufFile(pairs, [{ name: "norm", dimensions: [5], type: 0, data: Buffer.alloc(20, 1) }]);
}

describe("readGgufMetadata", () => {
  it("passes over all other values, in versions 2 and 3", async () => {
    const expected = { general: { architecture: "llama" }, llama: { block_count: 2 } };
    expect(await read(someModel())).toEqual(expected);
    expect(await read(ggufFile([pair.uint32("a.b", 1)], [], 2))).toEqual({ a: { b: 1 } });
  });

  it("gives the architecture and whole numbers, in objects by their keys", async () => {
    const pairs = [
      pair.text("general.architecture", "llama"),
      pair.text("general.name", "tiny"),
      pair.uint32("llama.block_count", 2),
      pair.uint32("llama.attention.head_count", 4),
      pair.float("llama.rope.freq_base", 1),
      pair.uint32("llama", 1),
      pair.text("tokenizer.chat_template.tool_use", "{{ tools }}"),
      pair.text("tokenizer.chat_template", "{{ messages }}"),
    ];
    const metadata = await read(ggufFile([...pairs.slice(0, 5), ...pairs.slice(6)], []));
    expect(metadata).toEqual({
      general: { architecture: "llama" },
      llama: { block_count: 2, attention: { head_count: 4 } },
      tokenizer: { chat_template: { tool_use: "{{ tools }}" } },
    });
    // A number gives way where later keys need an object.
    expect(await read(ggufFile(pairs.toReversed(), []))).toEqual(metadata);
  });

  it("reads a header that is longer than the first piece read", async () => {
    const tokens = Array.from({ length: 60_000 }, (_, index) => `token ${index} `.repeat(10));
    const pairs = [pair.texts("tokens", tokens), pair.uint32("llama.block_count", 2)];
    expect(await read(ggufFile(pairs, []))).toEqual({ llama: { block_count: 2 } });
  });

  it("keeps no key that no model has, however many there are", async () => {
    const deep = pair.uint32(Array(100).fill("a").join("."), 1);
    const dots = pair.uint32(".".repeat(60_000), 1);
    const many = Array.from({ length: 20_000 }, (_, at) => pair.uint32(`a.b${at}`, at));
    const metadata = await read(ggufFile([deep, dots, pair.uint32("a.c", 1), ...many], []));
    expect(metadata).toMatchObject({ a: { c: 1, b998: 998 } });
    expect(Object.keys(metadata.a as object)).toHaveLength(1000);
  });

  it.each([
    ["another format", Buffer.from("PK".padEnd(40)), /not GGUF/],
    ["an unknown version", ggufFile([], [], 4), /not GGUF of version 2 or 3/],
    ["a header that is cut off", someModel().subarray(0, 100), /ends within its header/],
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

describe("parseGgufMetadata", () => {
  it("asks for more at every cut before the last pair ends, and for nothing after it", () => {
    const bytes = someModel();
    const whole = parseGgufMetadata(bytes, "");
    const end = bytes.indexOf("llama.block_count") + "llama.block_count".length + 8;
    expect(parseGgufMetadata(bytes.subarray(0, end), "")).toEqual(whole);
    for (let cut = 0; cut < end; cut++) {
      expect(parseGgufMetadata(bytes.subarray(0, cut), "")).toBeUndefined();
    }
  });
});
