import type { Hash } from "node:crypto";
import type { Storage, Writer } from "../../data/storage/storage.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import type { FileRecord } from "../directory/file-record.ts";

/** Lines are kept until they have this many characters. */
const flushChars = 256 * 1024;

/** A file that is hashed while it is written; when it is closed, it appears whole. */
export class HashedFile {
  readonly #path: string;
  readonly #writer: Writer;
  readonly #digest: Hash = sha256Stream();
  #bytes = 0;
  /** Lines that wait to be written. */
  #text = "";

  private constructor(path: string, writer: Writer) {
    this.#path = path;
    this.#writer = writer;
  }

  static async open(storage: Storage, path: string): Promise<HashedFile> {
    return new HashedFile(path, await storage.writer(path));
  }

  async write(data: Uint8Array): Promise<void> {
    if (data.length === 0) return;
    this.#bytes += data.length;
    this.#digest.update(data);
    await this.#writer.write(data);
  }

  /** Adds a line; lines are written many at a time. */
  async add(line: string): Promise<void> {
    this.#text += `${line}\n`;
    if (this.#text.length >= flushChars) await this.#flush();
  }

  async close(): Promise<FileRecord> {
    await this.#flush();
    await this.#writer.close();
    return { path: this.#path, sha256: this.#digest.digest("hex"), bytes: this.#bytes };
  }

  /** Abandons the file: nothing appears. */
  async abort(): Promise<void> {
    await this.#writer.abort();
  }

  async #flush(): Promise<void> {
    const text = this.#text;
    this.#text = "";
    await this.write(Buffer.from(text));
  }
}

/** Fills a file and closes it, or abandons it after an error. */
export async function writeWhole<T extends Pick<Writer, "abort"> & { close(): Promise<unknown> }>(
  file: T,
  fill: (file: T) => Promise<void>,
): Promise<Awaited<ReturnType<T["close"]>>> {
  try {
    await fill(file);
    return (await file.close()) as Awaited<ReturnType<T["close"]>>;
  } catch (error) {
    await file.abort();
    throw error;
  }
}
