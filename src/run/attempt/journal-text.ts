import { isAscii } from "node:buffer";
import type { RandomReader } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JournalPlace } from "./journal.ts";

const windowBytes = 1024 * 1024;

/**
 * Reads places of a journal. Answers stand there roughly in input order, so one window that follows
 * the reader serves nearly all of them.
 */
export class JournalText {
  readonly #reader: RandomReader;
  #window: Buffer = Buffer.alloc(0);
  /** The window as text, where every byte is one character: slices of it cost nearly nothing. */
  #ascii: string | undefined;
  #start = 0;

  constructor(reader: RandomReader) {
    this.#reader = reader;
  }

  /** The text at `place`, or undefined where the window does not hold it. */
  cached({ offset, bytes }: JournalPlace): string | undefined {
    const at = offset - this.#start;
    if (at < 0 || at + bytes > this.#window.length) return undefined;
    return this.#ascii?.slice(at, at + bytes) ?? this.#window.toString("utf8", at, at + bytes);
  }

  async read(place: JournalPlace): Promise<string> {
    const known = this.cached(place);
    if (known !== undefined) return known;
    // Some margin before the place: the next row's answer may have come a little earlier.
    this.#start = Math.max(0, place.offset - windowBytes / 4);
    const length = Math.max(windowBytes, place.offset + place.bytes - this.#start);
    this.#window = Buffer.from(await this.#reader.read(this.#start, length));
    this.#ascii = isAscii(this.#window) ? this.#window.toString("latin1") : undefined;
    const text = this.cached(place);
    if (text === undefined) throw new SluiceError("RUN_DAMAGED", "a journal is too short");
    return text;
  }

  close(): Promise<void> {
    return this.#reader.close();
  }
}
