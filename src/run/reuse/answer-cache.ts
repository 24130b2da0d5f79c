import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { messageText, parseMessage } from "../../foundation/exact-json.ts";
import type { InferenceResponse } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject, jsonObjectIn } from "../../foundation/json.ts";
import { type Logger, silentLogger } from "../../foundation/logger.ts";
import { fromWire, toWire } from "../../foundation/typed-json.ts";

/** A response as its file has it: the rows as JSON that loses no type. */
type StoredResponse = Omit<InferenceResponse, "rows"> & { wireRows?: Json[] };

/** A full cache is reduced to this share of its limit. */
const trimmedShare = 0.9;

/**
 * Answers of earlier runs, one file each, named by its request. Several processes and runs may use
 * one cache at the same time: a file appears whole or not at all, and its name identifies its
 * content.
 */
export class AnswerCache {
  readonly #storage: Storage;
  readonly #maxBytes: number;
  readonly #logger: Logger;
  #hasAdded = false;

  /** @param logger receives warnings about damaged files. */
  constructor(storage: Storage, maxBytes: number, logger: Logger = silentLogger) {
    this.#storage = storage;
    this.#maxBytes = maxBytes;
    this.#logger = logger;
  }

  /** The answer for a key. A damaged file is removed, so that another can take its place. */
  async find(key: string): Promise<InferenceResponse | undefined> {
    try {
      const text = Buffer.from(await this.#storage.read(pathOf(key))).toString();
      const response = responseIn(text);
      if (response !== undefined) return response;
      if (jsonObjectIn(text)?.rows !== undefined) {
        // Of an earlier version, whose rows had lost what JSON does not have.
        await this.drop(key);
        return undefined;
      }
      const file = `${this.#storage.location}/${pathOf(key)}`;
      this.#logger.log(
        "warn",
        `a file of the cache is damaged: it is removed and made again (${file})`,
      );
      await this.drop(key);
      return undefined;
    } catch (error) {
      if (error instanceof SluiceError && error.code === "NOT_FOUND") return undefined;
      throw error;
    }
  }

  /** Removes the answer for a key, so that another can be kept. */
  async drop(key: string): Promise<void> {
    await this.#storage.remove(pathOf(key));
  }

  /** Keeps an answer; the first one for a key stays. */
  async add(key: string, response: InferenceResponse): Promise<void> {
    this.#hasAdded = true;
    const { rows, ...others } = response;
    const wireRows = rows?.map(toWire);
    const bytes = Buffer.from(messageText({ ...others, wireRows }));
    await this.#storage.createIfAbsent(pathOf(key), bytes, { isLasting: false });
  }

  /**
   * Reduces the cache below its limit, if this process has added to it. Names are digests: removal
   * in their order, from `start` on, hits answers of no particular kind.
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

/** Nothing that a run counts or prints may be missing. */
function responseIn(text: string): InferenceResponse | undefined {
  const { answers, usage, rows, wireRows } = jsonObjectIn(text) ?? {};
  if (!Array.isArray(answers) || !isJsonObject(usage) || rows !== undefined) return undefined;
  if (answers.length === 0 && !Array.isArray(wireRows)) return undefined;
  const { promptTokens, cachedTokens, completionTokens } = usage;
  const areAnswers = answers.every(
    (answer) =>
      isJsonObject(answer) &&
      typeof answer.text === "string" &&
      typeof answer.finishReason === "string" &&
      Number.isInteger(answer.tokens),
  );
  const areCounts = [promptTokens, cachedTokens, completionTokens].every(Number.isInteger);
  if (!areAnswers || !areCounts) return undefined;
  const { wireRows: wire, ...others } = parseMessage(text) as StoredResponse;
  return wire ? { ...others, rows: wire.map(fromWire) as JsonObject[] } : others;
}

function pathOf(key: string): string {
  return `${key.slice(0, 2)}/${key}.json`;
}
