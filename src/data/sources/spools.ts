import { ftruncateSync, writeSync } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import type { RandomReader } from "../storage/storage.ts";
import type { SourceContext } from "./source-store.ts";

/** Copies of files that a process keeps, of servers that give whole files only. */
const maxKeptSpools = 4;

/** Writes a whole file down; `restart` drops what was written. */
export type Fill = (write: (chunk: Uint8Array) => void, restart: () => void) => Promise<void>;

interface Spool {
  copy: Promise<{ handle: FileHandle; bytes: number }>;
  readers: number;
}

/** Nobody says when inputs are not needed any more, and Node warns of files that nobody closed. */
const closeWithOwner = new FinalizationRegistry((handles: Iterable<FileHandle>) => {
  for (const handle of handles) void handle.close();
});

/**
 * Copies of files that can be had from their start only, so that they can be read at any place. The
 * last ones are kept while the process lives. They have no name on the disk: however it ends,
 * nothing is left.
 */
export class Spools {
  readonly #context: SourceContext;
  /** By what they are copies of, the one used last at the end. */
  readonly #spools = new Map<string, Spool>();
  readonly #handles = new Set<FileHandle>();

  constructor(context: SourceContext) {
    this.#context = context;
    closeWithOwner.register(this, this.#handles);
  }

  has(key: string): boolean {
    return this.#spools.has(key);
  }

  /** Opens the copy under `key`, which `fill` makes where there is none. */
  async open(key: string, fill: Fill): Promise<RandomReader> {
    const spool = this.#spools.get(key) ?? { copy: this.#copied(fill), readers: 0 };
    this.#spools.delete(key);
    this.#spools.set(key, spool);
    spool.readers++;
    let isOpen = true;
    const close = async () => {
      if (!isOpen) return;
      isOpen = false;
      spool.readers--;
      await this.#trim();
    };
    try {
      const { handle, bytes } = await spool.copy;
      return { bytes, read: (offset, length) => readAt(handle, offset, length), close };
    } catch (error) {
      if (this.#spools.get(key) === spool) this.#spools.delete(key);
      throw error;
    }
  }

  async #trim(): Promise<void> {
    const idle = [...this.#spools].filter(([, { readers }]) => readers === 0);
    for (const [key, spool] of idle.slice(0, -maxKeptSpools)) {
      this.#spools.delete(key);
      await this.#close((await spool.copy).handle);
    }
  }

  async #copied(fill: Fill): Promise<{ handle: FileHandle; bytes: number }> {
    const { clock, random, temporaryDirectory } = this.#context;
    const path = join(temporaryDirectory, `sluice-input-${sortableId(clock, random)}`);
    const handle = await open(path, "ax+", 0o600);
    this.#handles.add(handle);
    let bytes = 0;
    try {
      await rm(path);
      await fill(
        (chunk) => {
          writeAll(handle, chunk, temporaryDirectory);
          bytes += chunk.length;
        },
        () => {
          ftruncateSync(handle.fd);
          bytes = 0;
        },
      );
      return { handle, bytes };
    } catch (error) {
      await this.#close(handle);
      throw error;
    }
  }

  async #close(handle: FileHandle): Promise<void> {
    this.#handles.delete(handle);
    await handle.close();
  }
}

// The file is new and small pieces go to the system's cache; what waited could not be read on.
function writeAll(handle: FileHandle, chunk: Uint8Array, file: string): void {
  try {
    for (let at = 0; at < chunk.length; ) at += writeSync(handle.fd, chunk, at);
  } catch (cause) {
    throw new SluiceError("STORE_FULL", (cause as Error).message, { file, cause });
  }
}

async function readAt(handle: FileHandle, offset: number, length: number): Promise<Uint8Array> {
  const data = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(data, filled, length - filled, offset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return data.subarray(0, filled);
}
