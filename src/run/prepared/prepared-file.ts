import type { Hash } from "node:crypto";
import type { RandomReader, Storage, Writer } from "../../data/storage/storage.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import { limits } from "../../foundation/limits.ts";
import type { PreparedRow } from "../../prompt/prepared-row.ts";
import { readLines } from "../directory/lines.ts";

/** A line of a file of prepared prompts. */
export interface PreparedLine {
  row: number;
  /** `null` if the row must be rendered each time. */
  kept: PreparedRow | null;
}

/** The last line: the SHA-256 of all lines before it. */
const sealOf = (digest: Hash) => `${JSON.stringify({ sha256: digest.digest("hex") })}\n`;
const sealBytes = sealOf(sha256Stream()).length;

/** Checks whether a file exists in full: it is read once, one chunk at a time. */
export async function preparedState(
  storage: Storage,
  path: string,
): Promise<"absent" | "whole" | "damaged"> {
  if ((await storage.stat(path)) === undefined) return "absent";
  const reader = await storage.open(path);
  try {
    return (await isSealed(reader)) ? "whole" : "damaged";
  } finally {
    await reader.close();
  }
}

async function isSealed(reader: RandomReader): Promise<boolean> {
  const end = reader.bytes - sealBytes;
  if (end < 0) return false;
  const digest = sha256Stream();
  for (let offset = 0; offset < end; offset += limits.readChunkBytes) {
    const length = Math.min(limits.readChunkBytes, end - offset);
    digest.update(await reader.read(offset, length));
  }
  return Buffer.from(await reader.read(end, sealBytes)).toString("latin1") === sealOf(digest);
}

/** Reads the rows of a whole file, in their order. */
export class PreparedReader {
  readonly #lines: AsyncGenerator<string>;
  #at: PreparedLine | undefined;

  constructor(storage: Storage, path: string) {
    this.#lines = readLines(storage, path);
  }

  /** The prepared prompts of a row; rows are requested in order, and some may be skipped. */
  async preparedOf(row: number): Promise<PreparedRow | null> {
    while (this.#at === undefined || this.#at.row < row) {
      const { done, value } = await this.#lines.next();
      if (done) return null;
      this.#at = JSON.parse(value) as PreparedLine;
    }
    return this.#at.row === row ? this.#at.kept : null;
  }

  async close(): Promise<void> {
    await this.#lines.return(undefined);
  }
}

/**
 * Writes a file, which appears whole or not at all. Calls `onFailure` once, at the first failure.
 */
export class PreparedWriter {
  readonly #storage: Storage;
  readonly #path: string;
  readonly #onFailure: (error: Error) => void;
  readonly #digest = sha256Stream();
  #writer: Writer | undefined;
  #text = "";
  #hasFailed = false;

  constructor(storage: Storage, path: string, onFailure: (error: Error) => void) {
    this.#storage = storage;
    this.#path = path;
    this.#onFailure = onFailure;
  }

  /** False once nothing more is kept. */
  get isOpen(): boolean {
    return !this.#hasFailed;
  }

  async add({ row, kept }: PreparedLine): Promise<void> {
    await this.#guarded(async () => {
      const line = JSON.stringify({ row, kept });
      const isTooLong = line.length > limits.maxLineBytes;
      this.#text += `${isTooLong ? JSON.stringify({ row, kept: null }) : line}\n`;
      if (this.#text.length >= limits.readChunkBytes) await this.#flush();
    });
  }

  /** From here on, other runs find it. */
  async close(): Promise<void> {
    await this.#guarded(async () => {
      await this.#flush();
      await this.#writer!.write(Buffer.from(sealOf(this.#digest)));
      await this.#writer!.close();
      this.#writer = undefined;
    });
  }

  /** Abandons the file, for a given reason. */
  fail(error: Error): void {
    if (!this.#hasFailed) this.#onFailure(error);
    this.#hasFailed = true;
  }

  async abort(): Promise<void> {
    await this.#writer?.abort().catch(() => {});
  }

  async #flush(): Promise<void> {
    const data = Buffer.from(this.#text);
    this.#text = "";
    this.#writer ??= await this.#storage.writer(this.#path);
    this.#digest.update(data);
    await this.#writer.write(data);
  }

  async #guarded(write: () => Promise<void>): Promise<void> {
    if (this.#hasFailed) return;
    try {
      await write();
    } catch (error) {
      this.fail(error as Error);
    }
  }
}
