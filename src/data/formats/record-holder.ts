import { keptPrefixBytes } from "./parse-row.ts";

/** Gathers the bytes of one record over several chunks; of one too long it keeps a prefix. */
export class RecordHolder {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of the record so far, those no longer kept included. */
  get bytes(): number {
    return this.#bytes;
  }

  hold(piece: Buffer): void {
    if (this.#bytes <= this.#maxBytes) this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes && this.#pieces.length > 0) {
      // A copy, so that the chunks are let go.
      const first = Buffer.concat(this.#pieces).subarray(0, keptPrefixBytes);
      this.#pieces = [Buffer.from(first)];
    }
  }

  /** The record, or its prefix when it is too long; the holder is empty afterwards. */
  take(): { bytes: Buffer; isWhole: boolean } {
    const isWhole = this.#bytes <= this.#maxBytes;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return { bytes, isWhole };
  }
}
