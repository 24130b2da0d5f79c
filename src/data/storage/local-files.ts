import type { FileHandle } from "node:fs/promises";
import { withStoreErrors } from "./local-errors.ts";
import { SerialQueue } from "./serial-queue.ts";
import type { Appender, RandomReader, Writer } from "./storage.ts";

/** Small writes are collected into one of this size. */
const writeBufferBytes = 256 * 1024;

/** Writes all of `data`; a single call of the system may write less. */
export async function writeFully(handle: FileHandle, data: Uint8Array): Promise<void> {
  for (let written = 0; written < data.length; ) {
    const { bytesWritten } = await handle.write(data, written, data.length - written);
    written += bytesWritten;
  }
}

export class LocalReader implements RandomReader {
  readonly bytes: number;
  readonly #handle: FileHandle;
  readonly #file: string;

  constructor(handle: FileHandle, file: string, bytes: number) {
    this.#handle = handle;
    this.#file = file;
    this.bytes = bytes;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const wanted = Math.max(0, Math.min(length, this.bytes - offset));
    const buffer = Buffer.allocUnsafeSlow(wanted);
    return buffer.subarray(0, await this.readInto(buffer, offset));
  }

  async readInto(target: Uint8Array, offset: number): Promise<number> {
    const wanted = Math.max(0, Math.min(target.length, this.bytes - offset));
    return await withStoreErrors(this.#file, async () => {
      let filled = 0;
      while (filled < wanted) {
        const place = offset + filled;
        const { bytesRead } = await this.#handle.read(target, filled, wanted - filled, place);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return filled;
    });
  }

  async close(): Promise<void> {
    await withStoreErrors(this.#file, () => this.#handle.close());
  }
}

export class LocalAppender implements Appender {
  readonly #handle: FileHandle;
  readonly #file: string;
  readonly #queue = new SerialQueue();
  readonly #sync: (handle: FileHandle) => Promise<void>;

  constructor(handle: FileHandle, file: string, sync: (handle: FileHandle) => Promise<void>) {
    this.#handle = handle;
    this.#file = file;
    this.#sync = sync;
  }

  append(data: Uint8Array): Promise<void> {
    return this.#inTurn(() => writeFully(this.#handle, data));
  }

  sync(): Promise<void> {
    return this.#inTurn(() => this.#sync(this.#handle));
  }

  async close(): Promise<void> {
    await this.#queue.run(async () => {}).catch(() => {});
    await withStoreErrors(this.#file, () => this.#handle.close());
  }

  #inTurn(action: () => Promise<void>): Promise<void> {
    return this.#queue.run(() => withStoreErrors(this.#file, action));
  }
}

/** How a writer ends: with its object, or without. */
interface WriterEnd {
  /** Publishes the written bytes as the object. */
  appear(handle: FileHandle): Promise<void>;
  /** Removes the written bytes. */
  vanish(): Promise<void>;
}

export class LocalWriter implements Writer {
  readonly #handle: FileHandle;
  readonly #file: string;
  readonly #end: WriterEnd;
  readonly #queue = new SerialQueue();
  #buffer: Buffer | undefined;
  #buffered = 0;
  #ended = false;

  constructor(handle: FileHandle, file: string, end: WriterEnd) {
    this.#handle = handle;
    this.#file = file;
    this.#end = end;
  }

  write(data: Uint8Array): Promise<void> {
    return this.#queue.run(() => withStoreErrors(this.#file, () => this.#put(data)));
  }

  async close(): Promise<void> {
    try {
      await this.#queue.run(() =>
        withStoreErrors(this.#file, async () => {
          await this.#flush();
          await this.#end.appear(this.#handle);
          this.#ended = true;
        }),
      );
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  async abort(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await this.#queue.run(async () => {}).catch(() => {});
    // The caller has failed already; a second error would hide the first.
    await this.#handle.close().catch(() => {});
    await this.#end.vanish().catch(() => {});
  }

  async #put(data: Uint8Array): Promise<void> {
    if (this.#buffered + data.length > writeBufferBytes) await this.#flush();
    if (data.length >= writeBufferBytes) return await writeFully(this.#handle, data);
    this.#buffer ??= Buffer.allocUnsafeSlow(writeBufferBytes);
    this.#buffer.set(data, this.#buffered);
    this.#buffered += data.length;
  }

  async #flush(): Promise<void> {
    const length = this.#buffered;
    this.#buffered = 0;
    if (length > 0) await writeFully(this.#handle, this.#buffer!.subarray(0, length));
  }
}
