import type { ColumnMetaData } from "hyparquet";
import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Stream } from "../../../foundation/hashing.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { chunkPlace } from "./footer.ts";

/** Memory that several streams use one after another. */
export class Window {
  buffer: Buffer = Buffer.allocUnsafeSlow(4 * limits.readChunkBytes);
}

/** The pages of one column of a row group, read once from the start. */
export class ChunkStream {
  readonly meta: ColumnMetaData;
  readonly #reader: RandomReader;
  readonly #file: string;
  readonly #window: Window;
  readonly #hash = sha256Stream();
  /** Offset up to which the file was read; bytes not used yet lie in the window. */
  #readEnd: number;
  readonly #end: number;
  #from = 0;
  #to = 0;

  constructor(reader: RandomReader, file: string, meta: ColumnMetaData, window: Window) {
    this.meta = meta;
    this.#reader = reader;
    this.#file = file;
    this.#window = window;
    const { start, end } = chunkPlace(meta);
    this.#readEnd = start;
    this.#end = end;
  }

  /** True at the end of the column. */
  get isAtEnd(): boolean {
    return this.#from === this.#to && this.#readEnd === this.#end;
  }

  /**
   * The next `bytes` bytes or more; fewer only at the end. Valid until the next call.
   *
   * @throws SluiceError `INPUT_CHANGED` if the file has become shorter.
   */
  async peek(bytes: number): Promise<Buffer> {
    if (this.#to - this.#from < bytes) await this.#read(bytes);
    return this.#window.buffer.subarray(this.#from, this.#to);
  }

  skip(bytes: number): void {
    this.#from += bytes;
  }

  /** The SHA-256 of the whole column. Reads the bytes that were not used. */
  async digest(): Promise<Buffer> {
    while (!this.isAtEnd) this.skip((await this.peek(1)).length);
    return this.#hash.digest();
  }

  async #read(bytes: number): Promise<void> {
    const { buffer } = this.#window;
    if (buffer.length < bytes) this.#window.buffer = Buffer.allocUnsafeSlow(2 * bytes);
    buffer.copy(this.#window.buffer, 0, this.#from, this.#to);
    this.#to -= this.#from;
    this.#from = 0;
    while (this.#to < bytes && this.#readEnd < this.#end) {
      const free = this.#window.buffer.subarray(this.#to, this.#to + this.#end - this.#readEnd);
      const filled = await this.#fill(free);
      if (filled === 0) {
        throw new SluiceError("INPUT_CHANGED", "it has become shorter", { file: this.#file });
      }
      this.#hash.update(free.subarray(0, filled));
      this.#to += filled;
      this.#readEnd += filled;
    }
  }

  async #fill(target: Buffer): Promise<number> {
    if (this.#reader.readInto) return await this.#reader.readInto(target, this.#readEnd);
    const read = await this.#reader.read(this.#readEnd, target.length);
    target.set(read);
    return read.length;
  }
}
