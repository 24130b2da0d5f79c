/**
 * A table of a FlatBuffer, the format of Arrow's metadata, with every offset checked. Without the
 * checks, damaged metadata would make the library read anywhere, or for ever.
 */
export class FlatTable {
  readonly #bytes: Buffer;
  readonly #start: number;
  /** Start and length of the list of field offsets. */
  readonly #fields: number;
  readonly #fieldsBytes: number;

  /** @param place where the offset of the table stands. */
  constructor(bytes: Buffer, place: number) {
    this.#bytes = bytes;
    this.#start = target(bytes, place);
    this.#fields = this.#start - bytes.readInt32LE(this.#start);
    this.#fieldsBytes = bytes.readInt16LE(this.#fields);
  }

  /** The offset of a field; undefined if it is absent. `slot` is 4 for the first field, 6, 8, … */
  place(slot: number): number | undefined {
    // Reads as the library does, even from damaged bytes.
    const offset = slot < this.#fieldsBytes ? this.#bytes.readInt16LE(this.#fields + slot) : 0;
    return offset === 0 ? undefined : this.#start + offset;
  }

  uint8(slot: number): number {
    const place = this.place(slot);
    return place === undefined ? 0 : this.#bytes.readUInt8(place);
  }

  int16(slot: number): number {
    const place = this.place(slot);
    return place === undefined ? 0 : this.#bytes.readInt16LE(place);
  }

  int64(slot: number): number {
    const place = this.place(slot);
    return place === undefined ? 0 : wholeNumber(this.#bytes, place);
  }

  table(slot: number): FlatTable | undefined {
    const place = this.place(slot);
    return place === undefined ? undefined : new FlatTable(this.#bytes, place);
  }

  /** The entries of a vector, each as its bytes. */
  entries(slot: number, entryBytes: number): Buffer[] {
    const { start, count } = this.#vector(slot, entryBytes);
    return Array.from({ length: count }, (_, at) =>
      this.#bytes.subarray(start + at * entryBytes, start + (at + 1) * entryBytes),
    );
  }

  tables(slot: number): FlatTable[] {
    const { start, count } = this.#vector(slot, 4);
    return Array.from({ length: count }, (_, at) => new FlatTable(this.#bytes, start + at * 4));
  }

  /** Throws if a text or a vector of bytes ends beyond the buffer. */
  checkText(slot: number): void {
    this.#vector(slot, 1);
  }

  #vector(slot: number, entryBytes: number): { start: number; count: number } {
    const place = this.place(slot);
    if (place === undefined) return { start: 0, count: 0 };
    const head = target(this.#bytes, place);
    const [start, count] = [head + 4, this.#bytes.readUInt32LE(head)];
    if (start + count * entryBytes > this.#bytes.length) {
      throw new Error("a list reaches beyond its end");
    }
    return { start, count };
  }
}

/** The offset that the bytes at `place` refer to. */
function target(bytes: Buffer, place: number): number {
  return place + bytes.readUInt32LE(place);
}

/** A 64-bit whole number that is an offset or a length. */
export function wholeNumber(bytes: Buffer, place: number): number {
  const value = Number(bytes.readBigInt64LE(place));
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`a length is ${value}`);
  return value;
}
