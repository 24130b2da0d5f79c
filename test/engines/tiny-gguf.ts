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

/** Tensors begin at multiples of it. */
const alignment = 32;
const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;

/** A GGUF file of those pairs and tensors, version 3 unless told. */
export function ggufFile(
  pairs: readonly Buffer[],
  tensors: readonly TinyTensor[],
  version = 3,
): Buffer {
  const padded = (bytes: Buffer) =>
    Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length) - bytes.length)]);
  let offset = 0;
  const described = tensors.map(({ name, dimensions, type, data }) => {
    const bytes = Buffer.concat([
      ...[text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset)],
    ]);
    offset += aligned(data.length);
    return bytes;
  });
  const head = [Buffer.from("GGUF"), u32(version), u64(tensors.length), u64(pairs.length)];
  return Buffer.concat([
    padded(Buffer.concat([...head, ...pairs, ...described])),
    ...tensors.map(({ data }) => padded(data)),
  ]);
}
