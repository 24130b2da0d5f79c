import {
  type ExactJson,
  type ExactRow,
  exactText,
  parseExactly,
} from "../foundation/exact-json.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { plainJson } from "../foundation/typed-json.ts";

/** Fewer digits are in no number that a double rounds. */
const manyDigits = /\d{16}/;

/**
 * The whole numbers of a row that a double cannot hold. Stages see them rounded; where one of them
 * comes out of a stage as it went in, its digits are put back.
 */
export class LongNumbers {
  /** By where they stand in the row. */
  readonly #byPath = new Map<string, bigint>();
  /** By what a stage sees; null where that is more than one number of the row. */
  readonly #byDouble = new Map<number, bigint | null>();

  private constructor(row: ExactJson) {
    this.#collect(row, "");
  }

  /** Those of a row's text; undefined where it has none, as almost all. */
  static of(raw: string): LongNumbers | undefined {
    if (!manyDigits.test(raw)) return undefined;
    const numbers = new LongNumbers(parseExactly(raw));
    return numbers.#byPath.size > 0 ? numbers : undefined;
  }

  /**
   * The JSON text of a row that stages made of the one that has these numbers.
   *
   * @example
   * LongNumbers.of('{"id":9007199254740993}')?.textOf({ key: 9007199254740992 });
   * // '{"key":9007199254740993}'
   */
  textOf(row: JsonObject): string {
    return exactText(this.#exact(row, ""));
  }

  #collect(value: ExactJson, path: string): void {
    if (typeof value === "bigint") {
      const double = Number(value);
      const known = this.#byDouble.get(double);
      this.#byDouble.set(double, known === undefined || known === value ? value : null);
      // Also one that a double holds may be written with other digits, as 2e20 for 2^67.
      if (String(double) !== String(value)) this.#byPath.set(path, value);
    } else if (typeof value === "object" && value !== null) {
      for (const [key, inner] of Object.entries(value)) this.#collect(inner, `${path}/${key}`);
    }
  }

  #exact(value: Json, path: string): ExactJson {
    if (typeof value === "number") {
      const same = this.#byPath.get(path);
      if (same !== undefined && Number(same) === value) return same;
      return this.#byDouble.get(value) ?? value;
    }
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((inner, at) => this.#exact(inner, `${path}/${at}`));
    const members = Object.entries(value).map(([key, inner]): [string, ExactJson] => [
      key,
      this.#exact(inner, `${path}/${key}`),
    ]);
    return Object.fromEntries(members);
  }
}

/**
 * The JSON text of a row that stages made.
 *
 * @param numbers those of the row that it was made of.
 */
export function resultText(row: JsonObject, numbers: LongNumbers | undefined): string {
  const plain = plainJson(row);
  return numbers ? numbers.textOf(plain as JsonObject) : exactText(plain);
}

/** Texts of the rows of a list, each with every digit that the list's text has. */
export function rowTexts(listText: string): string[] {
  if (!manyDigits.test(listText)) {
    return (JSON.parse(listText) as JsonObject[]).map((row) => JSON.stringify(row));
  }
  return (parseExactly(listText) as ExactRow[]).map(exactText);
}
