import { open } from "node:fs/promises";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";

/** The used metadata of a GGUF file. */
export interface GgufMetadata {
  general?: { architecture?: string; name?: string };
  tokenizer?: {
    /** A name of a template stands below, or beside it where there is one without a name. */
    chat_template?: string | { tool_use?: string };
    "chat_template.tool_use"?: string;
  };
  [architecture: string]: unknown;
}

// The layout is that of the GGUF specification (`docs/gguf.md` of ggml-org/ggml): magic, version,
// counts of tensors and of key-value pairs, the pairs, the tensors' descriptions, padding, data.

const versions = [2, 3];
const firstReadBytes = 4 * 1024 * 1024;
// Models have some dozens of keys of three or four names. A stranger's header may have millions.
const maxKeyBytes = 256;
const maxKeyNames = 8;
const maxKeptPairs = 1000;
const keptTexts = ["general.architecture", "tokenizer.chat_template.tool_use"];

/**
 * The architecture, the chat template for tools and the whole numbers in the header of a GGUF file,
 * in objects by their keys.
 *
 * @throws SluiceError `MODEL_CORRUPT` if it is not a little-endian GGUF of version 2 or 3, is cut
 *   off, or has a header longer than `limits.maxModelHeaderBytes`.
 */
export async function readGgufMetadata(path: string): Promise<GgufMetadata> {
  const file = await open(path, "r");
  try {
    // Its length is known only after reading: vocabularies are part of it.
    for (let asked = firstReadBytes; ; asked *= 2) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(asked), 0, asked, 0);
      const metadata = parseGgufMetadata(buffer.subarray(0, bytesRead), path);
      if (metadata !== undefined) return metadata;
      if (bytesRead < asked) throw corrupt("it ends within its header", path);
      if (asked >= limits.maxModelHeaderBytes) {
        throw corrupt(`its header is longer than ${limits.maxModelHeaderBytes} bytes`, path);
      }
    }
  } finally {
    await file.close();
  }
}

/** The metadata at the beginning of `bytes`; undefined if they are incomplete. */
export function parseGgufMetadata(bytes: Buffer, path: string): GgufMetadata | undefined {
  try {
    return parse(new Cursor(bytes), path);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function parse(cursor: Cursor, path: string): GgufMetadata {
  const magic = cursor.take(4).toString("latin1");
  const version = cursor.uint32();
  if (magic !== "GGUF" || !versions.includes(version)) {
    throw corrupt(`it is not GGUF of version ${versions.join(" or ")}`, path);
  }
  cursor.skip(8);
  const pairCount = cursor.uint64();
  const metadata: GgufMetadata = {};
  let room = maxKeptPairs;
  for (let pair = 0; pair < pairCount; pair++) {
    const keyBytes = cursor.take(cursor.uint64());
    const type = cursor.uint32();
    const names = keyBytes.length > maxKeyBytes ? [] : keyBytes.toString().split(".");
    const isKeptText = type === stringType && keptTexts.includes(names.join("."));
    const isKept = type === uint32Type || isKeptText;
    if (!isKept || names.length === 0 || names.length > maxKeyNames || room-- <= 0) {
      skipValue(cursor, type, path);
    } else keep(metadata, names, isKeptText ? cursor.string() : cursor.uint32());
  }
  return metadata;
}

/** Puts the value of `llama.attention.head_count` into the objects that its key names. */
function keep(metadata: GgufMetadata, names: readonly string[], value: number | string): void {
  const last = names.at(-1)!;
  let place: Record<string, unknown> = metadata;
  for (const name of names.slice(0, -1)) {
    const found = Object.hasOwn(place, name) ? place[name] : undefined;
    const below = typeof found === "object" ? (found as Record<string, unknown>) : {};
    place[name] = below;
    place = below;
  }
  place[last] = value;
}

const uint32Type = 4;
const stringType = 8;
const arrayType = 9;
/** Bytes of the values with a fixed size, by the number of their type. */
const valueBytes = [1, 1, 2, 2, 4, 4, 4, 1, undefined, undefined, 8, 8, 8];

function skipValue(cursor: Cursor, type: number, path: string): void {
  if (type === stringType) cursor.skip(cursor.uint64());
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

/** A place in bytes that advances as they are read; throws a `RangeError` at their end. */
class Cursor {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  skip(bytes: number): void {
    this.#at += bytes;
    if (this.#at > this.#bytes.length) throw new RangeError("the bytes end here");
  }

  take(bytes: number): Buffer {
    this.skip(bytes);
    return this.#bytes.subarray(this.#at - bytes, this.#at);
  }

  uint32(): number {
    return this.take(4).readUInt32LE();
  }

  /** Counts and lengths; files are far below the 2^53 that a number holds exactly. */
  uint64(): number {
    return Number(this.take(8).readBigUInt64LE());
  }

  string(): string {
    return this.take(this.uint64()).toString();
  }
}

function corrupt(detail: string, file: string): SluiceError {
  return new SluiceError("MODEL_CORRUPT", detail, { file });
}
