import type { Column } from "../../data/columns.ts";
import type { RowEncoder } from "../../data/formats/encoder.ts";
import type { CarriedGroup } from "../../data/formats/parquet/carried-groups.ts";
import { openEncoder, type ResultFormat } from "../../data/formats/result-format.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { HashedFile, writeWhole } from "./hashed-file.ts";

/** Lines passed to an encoder at once: few enough to die young. */
const batchLines = 500;
const batchChars = 256 * 1024;

/** How the rows of a file are written. */
export interface Encoding {
  format: ResultFormat;
  /** Columns of all rows; formats without a header have none. */
  columns: readonly Column[];
  /** For JSON: a file of one row is that row alone, without a list. */
  isObject?: boolean | undefined;
}

/** A result file that rows are added to, as lines of JSON. */
export class EncodedFile {
  readonly #file: HashedFile;
  readonly #encoder: RowEncoder;
  #lines: string[] = [];
  #chars = 0;
  #added = 0;

  private constructor(file: HashedFile, encoder: RowEncoder) {
    this.#file = file;
    this.#encoder = encoder;
  }

  static async open(
    storage: Storage,
    path: string,
    { format, ...options }: Encoding,
  ): Promise<EncodedFile> {
    const encoder = await openEncoder(format, options);
    return new EncodedFile(await HashedFile.open(storage, path), encoder);
  }

  get rows(): number {
    return this.#added;
  }

  async add(line: string): Promise<void> {
    this.#added++;
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#lines.length >= batchLines || this.#chars >= batchChars) await this.#flush();
  }

  /** Adds rows that fit into memory. */
  async addAll(lines: readonly string[]): Promise<void> {
    await this.#flush();
    this.#added += lines.length;
    await this.#write(await this.#encoder.add(lines));
  }

  /** Takes over columns of the next rows, if the format can. */
  async carry(group: CarriedGroup): Promise<void> {
    await this.#flush();
    for await (const pieces of this.#encoder.carry!(group)) await this.#write(pieces);
  }

  /** Finishes the file, which then appears whole. */
  async close(): Promise<FileRecord> {
    await this.#flush();
    await this.#write(await this.#encoder.end());
    return await this.#file.close();
  }

  /** Abandons the file: nothing appears. */
  async abort(): Promise<void> {
    await this.#file.abort();
  }

  async #flush(): Promise<void> {
    if (this.#lines.length === 0) return;
    const lines = this.#lines;
    this.#lines = [];
    this.#chars = 0;
    await this.#write(await this.#encoder.add(lines));
  }

  async #write(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) await this.#file.write(piece);
  }
}

/** Writes a whole file of rows, which arrive several at a time. */
export async function encodeFile(
  storage: Storage,
  path: string,
  batches: AsyncIterable<readonly string[]>,
  encoding: Encoding,
): Promise<FileRecord> {
  return await writeWhole(await EncodedFile.open(storage, path, encoding), async (file) => {
    for await (const lines of batches) await file.addAll(lines);
  });
}
