import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";

/** A file of lines that others append to; a missing file has no lines. */
export class GrowingLines {
  readonly #storage: Storage;
  readonly #path: string;
  #offset = 0;

  constructor(storage: Storage, path: string) {
    this.#storage = storage;
    this.#path = path;
  }

  /** The new lines since the last reading, without their ends. Read them all: each comes once. */
  async *fresh(): AsyncGenerator<string> {
    const reader = await this.#storage.open(this.#path).catch((error: unknown) => {
      if (asSluiceError(error).code === "NOT_FOUND") return undefined;
      throw error;
    });
    if (!reader) return;
    try {
      let pending = Buffer.alloc(0);
      for (let at = this.#offset; at < reader.bytes; ) {
        const chunk = await reader.read(at, limits.readChunkBytes);
        if (chunk.length === 0) break;
        at += chunk.length;
        const text = Buffer.concat([pending, chunk]);
        const end = text.lastIndexOf(10) + 1;
        // A line that is still being written comes the next time.
        pending = text.subarray(end);
        this.#offset = at - pending.length;
        if (end > 0) {
          yield* text
            .subarray(0, end - 1)
            .toString()
            .split("\n");
        }
      }
    } finally {
      await reader.close();
    }
  }
}
