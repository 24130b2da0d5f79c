import { open } from "node:fs/promises";
import { SluiceError } from "../../../foundation/errors.ts";
import { limits } from "../../../foundation/limits.ts";
import type { GgufMetadata } from "../node-llama-cpp.ts";

// The layout is that of the GGUF specification (`docs/gguf.md` of ggml-org/ggml): magic, version,
// counts of tensors and of key-value pairs, the pairs, the tensors' descriptions, padding, data.

/** What a GGUF file says about one tensor. */
export interface TensorDescription {
  name: string;
  /** Sizes, the length of a row first. */
  dimensions: readonly number[];
  /** Number of a ggml type. */
  type: number;
  /** Where its bytes begin, from the start of all tensor data. */
  offset: number;
}

/** All of a GGUF file that stands before the tensors' data. */
export interface GgufHeader {
  /** 2 or 3. */
  version: number;
  pairCount: number;
  /** The key-value pairs as they stand in the file. */
  pairs: Buffer;
  /** Where in `pairs` the number of the file type stands; undefined where there is none. */
  fileTypeAt: number | undefined;
  /** The name of the architecture and values that are whole numbers, in objects by their keys. */
  metadata: GgufMetadata;
  /** Number of files that the model is cut into. */
  parts: number;
  /** Tensors begin at multiples of it. */
  alignment: number;
  tensors: readonly TensorDescription[];
  /** Where in the file the tensors' data begin. */
  dataStart: number;
}

const versions = [2, 3];
const firstReadBytes = 4 * 1024 * 1024;
const defaultAlignment = 32;

/**
 * Reads the header of a GGUF file.
 *
 * @throws SluiceError `MODEL_CORRUPT` where it is no little-endian GGUF of version 2 or 3, is cut
 *   off, or has a header longer than `limits.maxModelHeaderBytes`.
 */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
  const file = await open(path, "r");
  try {
    // How long it is only reading it tells: vocabularies are part of it.
    for (let asked = firstReadBytes; ; asked *= 2) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(asked), 0, asked, 0);
      const header = parseGgufHeader(buffer.subarray(0, bytesRead), path);
      if (header !== undefined) return header;
      if (bytesRead < asked) throw corrupt("it ends within its header", path);
      if (asked >= limits.maxModelHeaderBytes) {
        throw corrupt(`its header is longer than ${limits.maxModelHeaderBytes} bytes`, path);
      }
    }
  } finally {
    await file.close();
  }
}

/** The header that `bytes` begin with; undefined where they end before it does. */
export function parseGgufHeader(bytes: Buffer, path: string): GgufHeader | undefined {
  try {
    return parse(new Cursor(bytes), path);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function parse(cursor: Cursor, path: string): GgufHeader {
  const magic = cursor.take(4).toString("latin1");
  const version = cursor.uint32();
  if (magic !== "GGUF" || !versions.includes(version)) {
    throw corrupt(`it is not GGUF of version ${versions.join(" or ")}`, path);
  }
  const tensorCount = cursor.uint64();
  const pairCount = cursor.uint64();
  const start = cursor.at;
  const facts = { fileTypeAt: undefined as number | undefined, parts: 1, alignment: 0 };
  const metadata: GgufMetadata = {};
  for (let pair = 0; pair < pairCount; pair++) {
    const key = cursor.string();
    const type = cursor.uint32();
    const valueAt = cursor.at;
    skipValue(cursor, type, path);
    const isName = type === stringType && key === "general.architecture";
    if (isName || type === uint32Type) keep(metadata, key, readValue(cursor.bytes, valueAt, type));
    if (key === "general.file_type" && type === uint32Type) facts.fileTypeAt = valueAt - start;
    if (key === "general.alignment") facts.alignment = cursor.bytes.readUInt32LE(valueAt);
    if (key === "split.count") facts.parts = cursor.bytes.readUInt16LE(valueAt);
  }
  const pairs = cursor.bytes.subarray(start, cursor.at);
  const tensors: TensorDescription[] = [];
  for (let index = 0; index < tensorCount; index++) tensors.push(readTensor(cursor));
  const alignment = facts.alignment || defaultAlignment;
  const dataStart = aligned(cursor.at, alignment);
  return { ...facts, metadata, version, pairCount, pairs, alignment, tensors, dataStart };
}

function readValue(bytes: Buffer, at: number, type: number): number | string {
  return type === uint32Type
    ? bytes.readUInt32LE(at)
    : bytes.toString("utf8", at + 8, at + 8 + Number(bytes.readBigUInt64LE(at)));
}

/** Puts the value of `llama.attention.head_count` into the objects that its key names. */
function keep(metadata: GgufMetadata, key: string, value: number | string): void {
  const path = key.split(".");
  const last = path.pop()!;
  let place: Record<string, unknown> = metadata;
  for (const name of path) {
    const found = Object.hasOwn(place, name) ? place[name] : undefined;
    const below = typeof found === "object" ? (found as Record<string, unknown>) : {};
    place[name] = below;
    place = below;
  }
  place[last] = value;
}

function readTensor(cursor: Cursor): TensorDescription {
  const name = cursor.string();
  const dimensions = Array.from({ length: cursor.uint32() }, () => cursor.uint64());
  return { name, dimensions, type: cursor.uint32(), offset: cursor.uint64() };
}

/** The bytes of a header, padding to the tensors' data included. */
export function ggufHeaderBytes(header: Omit<GgufHeader, "dataStart" | "metadata">): Buffer {
  const { version, pairCount, pairs, tensors, alignment } = header;
  const head = Buffer.alloc(24);
  head.write("GGUF", "latin1");
  head.writeUInt32LE(version, 4);
  head.writeBigUInt64LE(BigInt(tensors.length), 8);
  head.writeBigUInt64LE(BigInt(pairCount), 16);
  const whole = Buffer.concat([head, pairs, ...tensors.map(tensorBytes)]);
  return Buffer.concat([whole, Buffer.alloc(aligned(whole.length, alignment) - whole.length)]);
}

function tensorBytes({ name, dimensions, type, offset }: TensorDescription): Buffer {
  const text = Buffer.from(name);
  const bytes = Buffer.alloc(8 + text.length + 4 + dimensions.length * 8 + 4 + 8);
  let at = bytes.writeBigUInt64LE(BigInt(text.length), 0);
  at += text.copy(bytes, at);
  at = bytes.writeUInt32LE(dimensions.length, at);
  for (const size of dimensions) at = bytes.writeBigUInt64LE(BigInt(size), at);
  at = bytes.writeUInt32LE(type, at);
  bytes.writeBigUInt64LE(BigInt(offset), at);
  return bytes;
}

/** The first multiple of `alignment` that is not below `bytes`. */
export function aligned(bytes: number, alignment: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}

const uint32Type = 4;
const stringType = 8;
const arrayType = 9;
/** Bytes of the values that have a fixed size, by the number of their type. */
const valueBytes = [1, 1, 2, 2, 4, 4, 4, 1, undefined, undefined, 8, 8, 8];

function skipValue(cursor: Cursor, type: number, path: string): void {
  if (type === stringType) cursor.skipString();
  else if (type === arrayType) {
    const elementType = cursor.uint32();
    const length = cursor.uint64();
    const bytes = valueBytes[elementType];
    if (bytes !== undefined) cursor.skip(length * bytes);
    else for (let index = 0; index < length; index++) skipValue(cursor, elementType, path);
  } else {
    const bytes = valueBytes[type];
    if (bytes === undefined) throw corrupt(`its header has a value of type ${type}`, path);
    cursor.skip(bytes);
  }
}

/** A place in bytes that moves as they are read; a `RangeError` where they end. */
class Cursor {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  skip(bytes: number): void {
    this.at += bytes;
    if (this.at > this.bytes.length) throw new RangeError("the bytes end here");
  }

  take(bytes: number): Buffer {
    this.skip(bytes);
    return this.bytes.subarray(this.at - bytes, this.at);
  }

  uint32(): number {
    return this.take(4).readUInt32LE();
  }

  /** Counts and offsets; files are far below the 2^53 that a number holds exactly. */
  uint64(): number {
    return Number(this.take(8).readBigUInt64LE());
  }

  string(): string {
    return this.take(this.uint64()).toString();
  }

  skipString(): void {
    this.skip(this.uint64());
  }
}

function corrupt(detail: string, file: string): SluiceError {
  return new SluiceError("MODEL_CORRUPT", detail, { file });
}
