import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { systemCode } from "../../foundation/system-errors.ts";
import type { OpenFile } from "../open-files.ts";
import type { SourceFile } from "../sources/source-store.ts";

const mebibyte = 1024 * 1024;

/** Part sizes with which common tools upload large files. */
const usualPartBytes = [5, 8, 10, 15, 16, 25, 32, 50, 64, 100, 128, 256, 512].map(
  (size) => size * mebibyte,
);

/** One way to compute an ETag from content. */
interface TagMaker {
  update(chunk: Uint8Array): void;
  tag(): string;
}

/**
 * True if a local file has the content of a remote one. If the store's ETag can be computed (MD5,
 * MD5 of parts, SHA-256, git object ids), nothing is downloaded. Otherwise the remote file is read
 * and compared.
 */
export async function hasSameContent(
  path: string,
  far: SourceFile,
  openFar: OpenFile,
): Promise<boolean> {
  const { size } = await stat(path);
  if (size !== far.bytes) return false;
  if (await hasTag(path, size, far.etag)) return true;
  return await readsSame(path, far, openFar);
}

async function hasTag(path: string, bytes: number, etag = ""): Promise<boolean> {
  const tag = etag.replace(/^W\/|"/g, "").toLowerCase();
  const makers = tagMakers(tag, bytes);
  if (makers.length === 0) return false;
  for await (const chunk of chunksOf(path)) for (const maker of makers) maker.update(chunk);
  return makers.some((maker) => maker.tag() === tag);
}

/** The ways in which an ETag of this form may have been computed. */
function tagMakers(tag: string, bytes: number): TagMaker[] {
  if (/^[0-9a-f]{64}$/.test(tag)) return [hashed(createHash("sha256"))];
  if (/^[0-9a-f]{40}$/.test(tag)) return [hashed(createHash("sha1").update(`blob ${bytes}\0`))];
  if (/^[0-9a-f]{32}$/.test(tag)) return [hashed(createHash("md5"))];
  const parts = Number(/^[0-9a-f]{32}-(\d+)$/.exec(tag)?.[1]);
  if (Number.isNaN(parts)) return [];
  const sizes = usualPartBytes.filter((size) => Math.ceil(bytes / size) === parts);
  return sizes.map((size) => new TagOfParts(size));
}

function hashed(hash: Hash): TagMaker {
  return { update: (chunk) => void hash.update(chunk), tag: () => hash.digest("hex") };
}

/** The MD5 of the MD5s of all parts, and the number of parts. */
class TagOfParts implements TagMaker {
  readonly #partBytes: number;
  readonly #all = createHash("md5");
  #part = createHash("md5");
  #filled = 0;
  #parts = 0;

  constructor(partBytes: number) {
    this.#partBytes = partBytes;
  }

  update(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + this.#partBytes - this.#filled);
      this.#part.update(piece);
      this.#filled += piece.length;
      at += piece.length;
      if (this.#filled === this.#partBytes) this.#endPart();
    }
  }

  tag(): string {
    if (this.#filled > 0) this.#endPart();
    return `${this.#all.digest("hex")}-${this.#parts}`;
  }

  #endPart(): void {
    this.#all.update(this.#part.digest());
    this.#part = createHash("md5");
    this.#filled = 0;
    this.#parts++;
  }
}

async function readsSame(path: string, far: SourceFile, openFar: OpenFile): Promise<boolean> {
  const reader = await openFar(far.path, { etag: far.etag });
  try {
    let offset = 0;
    for await (const chunk of chunksOf(path)) {
      const other = await reader.read(offset, chunk.length);
      if (Buffer.compare(chunk, other) !== 0) return false;
      offset += chunk.length;
    }
    return offset === reader.bytes;
  } finally {
    await reader.close();
  }
}

/** MD5 of a file's bytes from `start` up to, but without, `end`, in hex. */
export async function md5Of(path: string, start: number, end: number): Promise<string> {
  const hash = createHash("md5");
  for await (const chunk of chunksOf(path, start, end)) hash.update(chunk);
  return hash.digest("hex");
}

/**
 * The chunks of a local file, or of a range of it.
 *
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export async function* chunksOf(
  path: string,
  start = 0,
  end = Number.POSITIVE_INFINITY,
): AsyncGenerator<Buffer> {
  if (start >= end) return;
  const range = { start, end: end - 1 };
  try {
    yield* createReadStream(path, { ...range, highWaterMark: limits.transferChunkBytes });
  } catch (cause) {
    const code = systemCode(cause);
    if (code === undefined) throw cause;
    throw new SluiceError("INPUT_UNREADABLE", code, { file: path, cause });
  }
}
