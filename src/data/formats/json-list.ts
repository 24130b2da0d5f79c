import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";
import type { RandomReader } from "../storage/storage.ts";
import { chunksOf, markBytes } from "./chunks.ts";

const [quote, backslash, colon, space, newline] = [34, 92, 58, 32, 10];
const [openBracket, closeBracket, openBrace, closeBrace] = [91, 93, 123, 125];

/**
 * Where the list begins that `keys` lead to from the top of a JSON file: the place of its bracket.
 *
 * @throws SluiceError `INPUT_UNREADABLE` where they lead to none, with the nearest key.
 */
export async function findList(
  reader: RandomReader,
  file: string,
  keys: readonly string[],
  chunkBytes: number,
): Promise<number> {
  const search = new ListSearch(file, keys);
  let base = 0;
  for await (const chunk of chunksOf(reader, file, { start: 0, end: reader.bytes }, chunkBytes)) {
    const mark = base === 0 ? markBytes(chunk) : 0;
    const found = search.push(chunk.subarray(mark));
    if (found !== undefined) return base + mark + found;
    base += chunk.length;
  }
  throw search.end();
}

/** The same bytes with blanks before the list, so that places and lines stay those of the file. */
export function fromList(reader: RandomReader, start: number): RandomReader {
  return {
    bytes: reader.bytes,
    async read(offset, length) {
      const data = await reader.read(offset, length);
      if (offset >= start) return data;
      const blank = Buffer.from(data);
      for (let at = 0; at < blank.length && offset + at < start; at++) {
        if (blank[at] !== newline) blank[at] = space;
      }
      return blank;
    },
    close: () => reader.close(),
  };
}

/** Goes through JSON byte by byte, into the objects that the keys name and past all else. */
class ListSearch {
  readonly #file: string;
  readonly #keys: readonly string[];
  /** Keys of which the value is entered. */
  #entered = 0;
  /** Brackets that are open. */
  #depth = 0;
  /** A value is looked at that the path leads through: the top, or that of a key. */
  #isValueMeant = true;
  #string: number[] | undefined;
  #isEscaped = false;
  #lastString = "";
  readonly #seen = new Set<string>();

  constructor(file: string, keys: readonly string[]) {
    this.#file = file;
    this.#keys = keys;
  }

  /** The place of the list in this chunk. */
  push(chunk: Buffer): number | undefined {
    for (const [at, code] of chunk.entries()) {
      if (this.#string !== undefined) this.#inString(code);
      else if (code > space && this.#step(code)) return at;
    }
    return undefined;
  }

  /** True where the list begins. */
  #step(code: number): boolean {
    if (this.#isValueMeant) {
      this.#isValueMeant = false;
      const isLast = this.#entered === this.#keys.length;
      if (isLast && code === openBracket) return true;
      if (isLast || code !== openBrace) throw this.#noList(code);
      this.#depth++;
    } else if (code === quote) this.#string = [];
    else if (code === openBrace || code === openBracket) this.#depth++;
    else if (code === closeBrace || code === closeBracket) this.#depth--;
    else if (code === colon && this.#depth === this.#entered + 1) this.#atKey();
    return false;
  }

  #atKey(): void {
    if (this.#lastString === this.#keys[this.#entered]) {
      this.#entered++;
      this.#isValueMeant = true;
      this.#seen.clear();
    } else this.#seen.add(this.#lastString);
  }

  #inString(code: number): void {
    // The first characters are enough, unless the string is a key on the way.
    if (this.#string!.length < 1000) this.#string!.push(code);
    if (this.#isEscaped) this.#isEscaped = false;
    else if (code === backslash) this.#isEscaped = true;
    else if (code === quote) {
      this.#lastString = textOf(Buffer.from(this.#string!.slice(0, -1)).toString());
      this.#string = undefined;
    }
  }

  end(): SluiceError {
    const key = this.#keys[this.#entered];
    if (key === undefined) return this.#fault("it ends before the list that input.records names");
    const meant = nearest(key, this.#seen);
    const known = [...this.#seen].slice(0, 12).join(", ") || "none";
    const instead = meant === undefined ? `its keys are ${known}` : `did you mean ${meant}?`;
    return this.#fault(`it has no key ${this.#path(this.#entered + 1)}; ${instead}`);
  }

  #noList(code: number): SluiceError {
    const kinds: Readonly<Record<number, string>> = {
      [openBracket]: "a list",
      [openBrace]: "an object",
    };
    const kind = kinds[code] ?? "neither list nor object";
    if (this.#entered === 0) {
      return this.#fault(
        `it is ${kind} at its top: leave input.records out where rows are its elements`,
      );
    }
    const wanted = this.#entered === this.#keys.length ? "a list" : "an object";
    return this.#fault(`${this.#path(this.#entered)} is ${kind}, not ${wanted}`);
  }

  #path(length: number): string {
    return this.#keys.slice(0, length).join(".");
  }

  #fault(detail: string): SluiceError {
    const hint = "name the key of the list of rows in input.records, as records: data.items";
    return new SluiceError("INPUT_UNREADABLE", detail, { file: this.#file, hint });
  }
}

function textOf(raw: string): string {
  try {
    return JSON.parse(`"${raw}"`) as string;
  } catch {
    return raw;
  }
}
