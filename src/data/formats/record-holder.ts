import { keptPrefixBytes } from "./parse-row.ts";

/** Collects the bytes of one record over several chunks; of a record too long, a prefix. */
export class RecordHolder {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of the record so far, including those that are not kept. */
  get bytes(): number {
    return this.#bytes;
  }

  hold(piece: Buffer): void {
    if (this.#bytes <= this.#maxBytes) this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes && this.#pieces.length > 0) {
      // A copy, so that the chunks can be freed.
      const first = Buffer.concat(this.#pieces).subarray(0, keptPrefixBytes);
      this.#pieces = [Buffer.from(first)];
    }
  }

  /** The record, or its prefix if it is too long. Empties the holder. */
  take(): { bytes: Buffer; isWhole: boolean } {
    const isWhole = this.#bytes <= this.#maxBytes;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return { bytes, isWhole };
  }
}
