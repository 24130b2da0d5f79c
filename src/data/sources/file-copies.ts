import { ftruncateSync, writeSync } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import type { RandomReader } from "../storage/storage.ts";
import type { SourceContext } from "./source-store.ts";

/** Copies that a process keeps, of files from servers that serve whole files only. */
const maxKeptCopies = 4;

/** Downloads a whole file; `restart` drops what was written so far. */
export type Fill = (write: (chunk: Uint8Array) => void, restart: () => void) => Promise<void>;

interface FileCopy {
  opened: Promise<{ handle: FileHandle; bytes: number }>;
  readers: number;
}

/** No caller says when inputs are no longer needed, and Node warns of files left open. */
const closeWithOwner = new FinalizationRegistry((handles: Iterable<FileHandle>) => {
  for (const handle of handles) void handle.close();
});

/**
 * Local copies of files that can be read from their start only, so that any offset can be read. The
 * last ones are kept while the process lives. They have no name on disk, so nothing remains however
 * the process ends.
 */
export class FileCopies {
  readonly #context: SourceContext;
  /** By the key of the remote file; the one used last is at the end. */
  readonly #copies = new Map<string, FileCopy>();
  readonly #handles = new Set<FileHandle>();

  constructor(context: SourceContext) {
    this.#context = context;
    closeWithOwner.register(this, this.#handles);
  }

  has(key: string): boolean {
    return this.#copies.has(key);
  }

  /** Opens the copy for `key`; `fill` makes it if there is none. */
  async open(key: string, fill: Fill): Promise<RandomReader> {
    const copy = this.#copies.get(key) ?? { opened: this.#copied(fill), readers: 0 };
    this.#copies.delete(key);
    this.#copies.set(key, copy);
    copy.readers++;
    let isOpen = true;
    const close = async () => {
      if (!isOpen) return;
      isOpen = false;
      copy.readers--;
      await this.#trim();
    };
    try {
      const { handle, bytes } = await copy.opened;
      return { bytes, read: (offset, length) => readAt(handle, offset, length), close };
    } catch (error) {
      if (this.#copies.get(key) === copy) this.#copies.delete(key);
      throw error;
    }
  }

  /** Makes a copy that is kept only until its reader is closed. */
  async openOwn(fill: Fill): Promise<RandomReader> {
    const { handle, bytes } = await this.#copied(fill);
    const close = () => this.#close(handle);
    return { bytes, read: (offset, length) => readAt(handle, offset, length), close };
  }

  async #trim(): Promise<void> {
    const idle = [...this.#copies].filter(([, { readers }]) => readers === 0);
    for (const [key, copy] of idle.slice(0, -maxKeptCopies)) {
      this.#copies.delete(key);
      await this.#close((await copy.opened).handle);
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

// Synchronous: the file is new and small writes go to the system's cache. The reader could do
// nothing meanwhile.
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
