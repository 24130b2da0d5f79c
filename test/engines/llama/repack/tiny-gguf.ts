import { aligned } from "../../../../src/engines/llama/repack/gguf-header.ts";
import { mix32 } from "../../../../src/foundation/random.ts";

// Written apart from the code under test, so that the two check one another.

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

/** A key-value pair of a GGUF file, as bytes. */
export const pair = {
  uint32: (key: string, value: number) => Buffer.concat([text(key), u32(4), u32(value)]),
  uint16: (key: string, value: number) =>
    Buffer.concat([text(key), u32(2), u32(value).subarray(0, 2)]),
  text: (key: string, value: string) => Buffer.concat([text(key), u32(8), text(value)]),
  texts: (key: string, values: string[]) =>
    Buffer.concat([text(key), u32(9), u32(8), u64(values.length), ...values.map(text)]),
  float: (key: string, value: number) =>
    Buffer.concat([text(key), u32(6), Buffer.from(Float32Array.of(value).buffer)]),
  floats: (key: string, values: number[]) =>
    Buffer.concat([
      ...[text(key), u32(9), u32(6), u64(values.length)],
      Buffer.from(Float32Array.from(values).buffer),
    ]),
  bool: (key: string, value: boolean) =>
    Buffer.concat([text(key), u32(7), Buffer.from([Number(value)])]),
};

export interface TinyTensor {
  name: string;
  dimensions: number[];
  type: number;
  data: Buffer;
}

/** A GGUF file of those pairs and tensors, version 3 unless told, aligned to 32 unless told. */
export function ggufFile(
  pairs: readonly Buffer[],
  tensors: readonly TinyTensor[],
  { version = 3, alignment = 32 } = {},
): Buffer {
  const padded = (bytes: Buffer) =>
    Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length, alignment) - bytes.length)]);
  let offset = 0;
  const described = tensors.map(({ name, dimensions, type, data }) => {
    const bytes = Buffer.concat([
      ...[text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset)],
    ]);
    offset += aligned(data.length, alignment);
    return bytes;
  });
  const head = [Buffer.from("GGUF"), u32(version), u64(tensors.length), u64(pairs.length)];
  return Buffer.concat([
    padded(Buffer.concat([...head, ...pairs, ...described])),
    ...tensors.map(({ data }) => padded(data)),
  ]);
}

/** `length` bytes that follow from `seed`, none of them 0. */
export function someBytes(length: number, seed: number): Buffer {
  return Buffer.from(
    Array.from({ length }, (_, index) => 1 + (mix32(seed * 65_536 + index) % 255)),
  );
}

/** Blocks of `Q4_1` with a scale of 1 and a minimum of -2. */
export function q41Blocks(count: number, seed: number): Buffer {
  const bytes = someBytes(count * 20, seed);
  for (let at = 0; at < bytes.length; at += 20) bytes.writeUInt32LE(0xc0003c00, at);
  return bytes;
}

/** A small model with slow weights: pairs of many kinds, tensors of three types, out of order. */
export function slowModel(): { bytes: Buffer; pairs: Buffer[]; tensors: TinyTensor[] } {
  const pairs = [
    pair.text("general.architecture", "llama"),
    pair.uint32("general.file_type", 3),
    pair.texts("tokenizer.ggml.tokens", ["<s>", "é", ""]),
    pair.floats("tokenizer.ggml.scores", [0.5, -1]),
    pair.bool("tokenizer.ggml.add_bos_token", true),
  ];
  const tensors = [
    { name: "norm", dimensions: [5], type: 0, data: someBytes(20, 1) },
    { name: "slow", dimensions: [64, 3], type: 3, data: q41Blocks(6, 2) },
    { name: "unknown", dimensions: [7], type: 99, data: someBytes(41, 3) },
    { name: "slow too", dimensions: [32], type: 3, data: q41Blocks(1, 4) },
  ];
  return { bytes: ggufFile(pairs, tensors), pairs, tensors };
}
