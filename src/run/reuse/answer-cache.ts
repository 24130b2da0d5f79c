import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceResponse } from "../../foundation/inference.ts";
import { isJsonObject } from "../../foundation/json.ts";

/** Share of its limit that a cache is brought down to when it has grown beyond it. */
const trimmedShare = 0.9;

/**
 * Answers of earlier runs, a file each, named by what was asked. Several processes and runs may use
 * one cache at the same time: a file appears whole or not at all, and its name says what is in it.
 */
export class AnswerCache {
  readonly #storage: Storage;
  readonly #maxBytes: number;
  #hasAdded = false;

  constructor(storage: Storage, maxBytes: number) {
    this.#storage = storage;
    this.#maxBytes = maxBytes;
  }

  /** The answer kept under a key. A file that is damaged goes, to make place for another. */
  async find(key: string): Promise<InferenceResponse | undefined> {
    try {
      const text = Buffer.from(await this.#storage.read(pathOf(key))).toString();
      const response = responseIn(text);
      if (response === undefined) await this.drop(key);
      return response;
    } catch (error) {
      if (error instanceof SluiceError && error.code === "NOT_FOUND") return undefined;
      throw error;
    }
  }

  /** Forgets the answer under a key, so that another can be kept. */
  async drop(key: string): Promise<void> {
    await this.#storage.remove(pathOf(key));
  }

  /** Keeps an answer; the first one under a key stays. */
  async add(key: string, response: InferenceResponse): Promise<void> {
    this.#hasAdded = true;
    const bytes = Buffer.from(JSON.stringify(response));
    await this.#storage.createIfAbsent(pathOf(key), bytes, { isLasting: false });
  }

  /**
   * Brings the cache below its limit, if this process has added to it. Names are digests, so that
   * removing them in their order, from `start` on, removes answers of no particular kind.
   *
   * @param start a share of all names, 0 to 1.
   */
  async trim(start: number): Promise<void> {
    if (!this.#hasAdded) return;
    const files: { path: string; bytes: number }[] = [];
    let bytes = 0;
    for await (const file of this.#storage.list("")) {
      files.push(file);
      bytes += file.bytes;
    }
    if (bytes <= this.#maxBytes) return;
    const first = Math.floor(start * files.length);
    for (const file of [...files.slice(first), ...files.slice(0, first)]) {
      if (bytes <= this.#maxBytes * trimmedShare) return;
      await this.#storage.remove(file.path);
      bytes -= file.bytes;
    }
  }
}

function responseIn(text: string): InferenceResponse | undefined {
  try {
    const response = JSON.parse(text) as InferenceResponse;
    return isJsonObject(response) && Array.isArray(response.answers) ? response : undefined;
  } catch {
    return undefined;
  }
}

function pathOf(key: string): string {
  return `${key.slice(0, 2)}/${key}.json`;
}
