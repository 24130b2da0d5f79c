import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";
import type { RandomReader } from "../storage/storage.ts";
import { chunksOf, markBytes } from "./chunks.ts";

const [quote, backslash, colon, space, newline] = [34, 92, 58, 32, 10];
const [openBracket, closeBracket, openBrace, closeBrace] = [91, 93, 123, 125];

/**
 * The offset of the `[` of the list that `keys` lead to, from the top of a JSON file.
 *
 * @throws SluiceError `INPUT_UNREADABLE`, with the nearest key, if they do not lead to a list.
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

/** The same file with blanks before the list, so that offsets and lines stay the same. */
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

/** Scans JSON byte by byte: enters the objects that the keys name and skips everything else. */
class ListSearch {
  readonly #file: string;
  readonly #keys: readonly string[];
  /** Number of keys whose value was entered. */
  #entered = 0;
  /** Number of open brackets. */
  #depth = 0;
  /** True while the current value is on the path: the top, or the value of a key. */
  #isValueMeant = true;
  #string: number[] | undefined;
  #isEscaped = false;
  #lastString = "";
  readonly #seen = new Set<string>();

  constructor(file: string, keys: readonly string[]) {
    this.#file = file;
    this.#keys = keys;
  }

  /** The offset of the list in this chunk, if it begins there. */
  push(chunk: Buffer): number | undefined {
    for (const [at, code] of chunk.entries()) {
      if (this.#string !== undefined) this.#inString(code);
      else if (code > space && this.#step(code)) return at;
    }
    return undefined;
  }

  /** True if the list begins here. */
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
    // A prefix is enough to tell that a string is none of the keys.
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
