import type { Hash } from "node:crypto";
import { createReadStream, writeSync } from "node:fs";
import { type FileHandle, open, rm, stat } from "node:fs/promises";
import { sha256Stream } from "../../foundation/hashing.ts";
import { ifThere } from "../../foundation/system-errors.ts";
import type { AssertHeld } from "./file-lock.ts";

/** How long a process may write without a look at its lock. */
const lockLookMs = 1000;

/**
 * An incomplete file under its own name: bytes are appended while their sha256 is computed, so that
 * a later try can continue it. It is written only while its lock is held: of two writers, each
 * would know the sum of its own bytes alone.
 */
export class PartFile {
  readonly #handle: FileHandle;
  readonly #assertHeld: AssertHeld;
  #hash: Hash;
  #bytes: number;

  private constructor(handle: FileHandle, assertHeld: AssertHeld, hash: Hash, bytes: number) {
    this.#handle = handle;
    this.#assertHeld = assertHeld;
    this.#hash = hash;
    this.#bytes = bytes;
  }

  /** Opens the file, after reading the bytes of an earlier try. */
  static async open(path: string, assertHeld: AssertHeld): Promise<PartFile> {
    const handle = await open(path, "a");
    try {
      const { hash, bytes } = await hashed([path]);
      return new PartFile(handle, assertHeld, hash, bytes);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Present bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** sha256 of the present bytes, as hex. */
  get sha256(): string {
    return this.#hash.copy().digest("hex");
  }

  /** At once: whoever receives the bytes must not make a connection wait. */
  append(chunk: Uint8Array): void {
    this.#assertHeld(lockLookMs);
    for (let written = 0; written < chunk.length; ) {
      written += writeSync(this.#handle.fd, chunk, written);
    }
    this.#hash.update(chunk);
    this.#bytes += chunk.length;
  }

  /** Drops all bytes. */
  async restart(): Promise<void> {
    this.#assertHeld();
    await this.#handle.truncate(0);
    this.#hash = sha256Stream();
    this.#bytes = 0;
  }

  /** Makes the bytes durable and closes the file. */
  async close(): Promise<void> {
    await this.#handle.sync().finally(() => this.#handle.close());
  }
}

/** sha256 and size of files, as if they were one. */
export async function hashFiles(
  paths: readonly string[],
  signal?: AbortSignal,
): Promise<{ sha256: string; bytes: number }> {
  const { hash, bytes } = await hashed(paths, signal);
  return { sha256: hash.digest("hex"), bytes };
}

async function hashed(
  paths: readonly string[],
  signal?: AbortSignal,
): Promise<{ hash: Hash; bytes: number }> {
  const hash = sha256Stream();
  let bytes = 0;
  for (const path of paths) {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
      signal?.throwIfAborted();
      hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
  }
  return { hash, bytes };
}

/** True if the file begins like GGUF files. */
export async function isGguf(path: string): Promise<boolean> {
  const handle = await open(path, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0);
    return bytesRead === 4 && buffer.toString("latin1") === "GGUF";
  } finally {
    await handle.close();
  }
}

/** Bytes of a file, or undefined if there is none. */
export async function fileBytes(path: string): Promise<number | undefined> {
  return (await ifThere(stat(path)))?.size;
}

/** The folder in which a wheel with the file is fetched. */
export function wheelFolder(part: string): string {
  return `${part}.pip`;
}

/** Removes a part file and what stands beside it: the record of its source, a wheel. */
export async function discardPart(path: string): Promise<void> {
  await rm(path, { force: true });
  await rm(`${path}.json`, { force: true });
  await rm(wheelFolder(path), { recursive: true, force: true });
}
