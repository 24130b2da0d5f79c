import type { InputRow } from "../../data/row.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { EncodedFile, type Encoding } from "../output/encoded-file.ts";
import { HashedFile } from "../output/hashed-file.ts";
import { type ChunkFile, chunkPath } from "./chunk-folder.ts";

export interface ChunkForm {
  encoding: Encoding;
  ending: string;
  /**
   * True if rows are lines already and chunks hold the same lines: their bytes are copied, whether
   * they are JSON or not.
   */
  isCopied: boolean;
}

interface OpenChunk {
  add(rows: readonly InputRow[]): Promise<void>;
  close(): Promise<FileRecord>;
  abort(): Promise<void>;
}

/** Chunks that are being stored while the next ones are filled. */
const closingAtOnce = 8;

/** Fills chunks of given sizes one after the other. Memory holds the rows of one call. */
export class ChunkWriter {
  readonly #files: ChunkFile[] = [];
  readonly #closing: Promise<FileRecord>[] = [];
  readonly #storage: Storage;
  readonly #sizes: readonly number[];
  readonly #form: ChunkForm;
  #open: OpenChunk | undefined;
  #left = 0;
  #opened = 0;

  /** @param sizes rows of each chunk. */
  constructor(storage: Storage, sizes: readonly number[], form: ChunkForm) {
    this.#storage = storage;
    this.#sizes = sizes;
    this.#form = form;
  }

  /** @throws SluiceError for a row that these chunks cannot hold, with its place. */
  async add(rows: readonly InputRow[]): Promise<void> {
    for (let at = 0; at < rows.length; ) {
      const chunk = await this.#chunkWithRoom();
      const taken = rows.slice(at, at + this.#left);
      await chunk.add(taken);
      this.#left -= taken.length;
      at += taken.length;
    }
  }

  get writtenChunks(): number {
    return this.#files.length;
  }

  /** Closes the last chunk, writes the empty ones, and returns all of them. */
  async end(): Promise<ChunkFile[]> {
    while (this.#opened < this.#sizes.length) {
      await this.#closeOpen();
      await this.#openNext();
    }
    await this.#closeOpen();
    while (this.#closing.length > 0) await this.#settleOne();
    return this.#files;
  }

  /** Abandons the open chunk, and waits for those that are being closed. */
  async abort(): Promise<void> {
    await this.#open?.abort();
    this.#open = undefined;
    await Promise.allSettled(this.#closing);
  }

  async #chunkWithRoom(): Promise<OpenChunk> {
    while (!this.#open || this.#left === 0) {
      await this.#closeOpen();
      await this.#openNext();
    }
    return this.#open;
  }

  async #openNext(): Promise<void> {
    const index = this.#opened++;
    const path = chunkPath(index, this.#form.ending);
    this.#open = await openChunk(this.#storage, path, this.#form);
    this.#left = this.#sizes[index]!;
  }

  async #closeOpen(): Promise<void> {
    if (!this.#open) return;
    const closing = this.#open.close();
    this.#open = undefined;
    // A failed chunk is reported in its turn.
    closing.catch(() => {});
    this.#closing.push(closing);
    if (this.#closing.length >= closingAtOnce) await this.#settleOne();
  }

  async #settleOne(): Promise<void> {
    const { bytes, sha256 } = await this.#closing.shift()!;
    this.#files.push({ rows: this.#sizes[this.#files.length]!, bytes, sha256 });
  }
}

async function openChunk(storage: Storage, path: string, form: ChunkForm): Promise<OpenChunk> {
  if (form.isCopied && form.encoding.format.compression === undefined) {
    return new CopiedLines(await HashedFile.open(storage, path));
  }
  const file = await EncodedFile.open(storage, path, form.encoding);
  const close = () => file.close();
  const abort = () => file.abort();
  const add = async (rows: readonly InputRow[]) => {
    for (const row of rows) {
      assertHeld(row, form.isCopied);
      await file.add(row.raw);
    }
  };
  return { add, close, abort };
}

/** Lines as in the input, including bytes that are not UTF-8. */
class CopiedLines implements OpenChunk {
  readonly #file: HashedFile;

  constructor(file: HashedFile) {
    this.#file = file;
  }

  async add(rows: readonly InputRow[]): Promise<void> {
    let text = "";
    const flush = async () => {
      await this.#file.write(Buffer.from(text));
      text = "";
    };
    for (const row of rows) {
      if (row.error?.code === "LINE_TOO_LONG") assertHeld(row, true);
      if (row.rawBase64 === undefined) {
        text += `${row.raw}\n`;
        continue;
      }
      await flush();
      await this.#file.write(Buffer.from(row.rawBase64, "base64"));
      text = "\n";
    }
    await flush();
  }

  close(): Promise<FileRecord> {
    return this.#file.close();
  }

  abort(): Promise<void> {
    return this.#file.abort();
  }
}

/** Refuses a faulty row: nothing of it may be lost, and no table can hold it. */
function assertHeld({ error, rawBase64 }: InputRow, isCopied: boolean): void {
  const isText = rawBase64 === undefined && error?.code !== "LINE_TOO_LONG";
  if (!error || (isCopied && isText)) return;
  const hint =
    error.code === "LINE_TOO_LONG"
      ? "raise --max-line-bytes"
      : "correct the row; from JSONL to plain JSONL, lines are carried over as they are";
  throw new SluiceError("INPUT_UNREADABLE", error.message, { hint, cause: error });
}
