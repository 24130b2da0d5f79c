/**
 * A table of a flatbuffer, the form of Arrow's metadata, with every place checked: what is damaged
 * would have the library read anywhere, and without end.
 */
export class FlatTable {
  readonly #bytes: Buffer;
  readonly #start: number;
  /** Where it says where each field lies, and for how many bytes. */
  readonly #fields: number;
  readonly #fieldsBytes: number;

  /** @param place where the offset of the table stands. */
  constructor(bytes: Buffer, place: number) {
    this.#bytes = bytes;
    this.#start = target(bytes, place);
    this.#fields = this.#start - bytes.readInt32LE(this.#start);
    this.#fieldsBytes = bytes.readInt16LE(this.#fields);
  }

  /** Where a field lies; undefined where it is not given. `slot` is 4 for the first, 6, 8, … */
  place(slot: number): number | undefined {
    // As the library has it, whatever damage there is.
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

  /** Bytes of the entries of a vector, one after another. */
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

  /** Throws where a text or a vector of bytes reaches beyond the end. */
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

/** What the offset at `place` refers to. */
function target(bytes: Buffer, place: number): number {
  return place + bytes.readUInt32LE(place);
}

/** A whole number of 64 bits that stands for a place or a length. */
export function wholeNumber(bytes: Buffer, place: number): number {
  const value = Number(bytes.readBigInt64LE(place));
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`a length is ${value}`);
  return value;
}
