import type { JsonObject } from "./json.ts";
import { memberTexts } from "./json-members.ts";

/**
 * A JSON value whose whole numbers beyond ±(2^53 − 1) are `bigint`, so that no digit is lost, and
 * numbers too large for JavaScript, such as `1e400`, their text.
 */
export type ExactJson =
  | null
  | boolean
  | number
  | bigint
  | string
  | ExactJson[]
  | { [key: string]: ExactJson };

/** A row with every digit of its whole numbers. */
export type ExactRow = { [key: string]: ExactJson };

/**
 * What becomes of numbers that JavaScript would round: whole ones are `bigint` and others the
 * nearest `number`, or all of them the text in which they are written.
 */
export type LongNumbers = "bigint" | "text";

/** What ends the texts of `specialNumbers`; nobody writes a number so. */
const specialMark = "e+00999";
/**
 * Floating-point values that JSON lacks, by what stands for each in lines that Sluice keeps for
 * itself. It is valid JSON; whatever leaves Sluice as JSON has `null` instead.
 */
const specialNumbers: ReadonlyMap<string, number> = new Map([
  [`1${specialMark}`, Number.POSITIVE_INFINITY],
  [`-1${specialMark}`, Number.NEGATIVE_INFINITY],
  [`9${specialMark}`, Number.NaN],
]);
const specialOrText = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\de\+00999/g;

/** The text that stands for NaN or an infinity in lines that Sluice keeps for itself. */
export function specialText(value: number): string {
  if (Number.isNaN(value)) return `9${specialMark}`;
  return value > 0 ? `1${specialMark}` : `-1${specialMark}`;
}

/**
 * JSON as it leaves Sluice: with null for NaN and infinities.
 *
 * @example
 * withoutSpecials(`{"x":${specialText(Number.NaN)}}`); // '{"x":null}'
 */
export function withoutSpecials(json: string): string {
  if (!json.includes(specialMark)) return json;
  return json.replace(specialOrText, (found) => (specialNumbers.has(found) ? "null" : found));
}

/** What `JSON.parse` gives, with NaN and infinities where `specialText` stands for them. */
export function parseSpecials(text: string): unknown {
  if (!text.includes(specialMark)) return JSON.parse(text);
  return parse(text, (_key, value, { source = "" }) => specialNumbers.get(source) ?? value);
}

/**
 * A number of JSON together with the text in which it is written, such as `1.0` or `1e400`. It
 * counts as the number; `JSON.stringify` and `String` write the text.
 */
export class WrittenNumber extends Number {
  readonly text: string;

  constructor(text: string) {
    super(specialNumbers.get(text) ?? text);
    this.text = text;
  }

  /** The number as code gets it: a whole number that no `number` holds is a `bigint`. */
  get exact(): number | bigint {
    const value = this.valueOf();
    return isLongWhole(this.text, value) ? BigInt(this.text) : value;
  }

  /** True for NaN and infinities, whose text is for lines that Sluice keeps for itself. */
  get isSpecial(): boolean {
    return specialNumbers.has(this.text);
  }

  override toString(): string {
    return this.isSpecial ? String(this.valueOf()) : this.text;
  }

  toJSON(): unknown {
    return rawJson(this.text);
  }
}

/** A JSON value whose numbers are `WrittenNumber` where JavaScript would write them otherwise. */
export type WrittenJson =
  | null
  | boolean
  | number
  | bigint
  | WrittenNumber
  | string
  | WrittenJson[]
  | { [key: string]: WrittenJson };

/** A row with the texts of its numbers. */
export type WrittenRow = { [key: string]: WrittenJson };

/** In every JSON text with a whole number that no `number` holds, or one too large for it. */
const longWhole = /(?<![.\d])\d{16}|\d[eE]\+?\d{3}/;
/** In every JSON text with digits that a `number` may not hold. */
const longNumber = /\d(?:\.?\d){15}|\d[eE]/;
/** In every JSON text with a number that JavaScript writes in another way. */
const oddNumber = /\d(?:\.?\d){15}|\d[eE]|\.\d*0(?!\d)|-0(?!\.)|\.0{6}/;
/**
 * The same, quicker on rows of many floats: it ignores decimals of up to 17 digits, which a
 * `number` gives back as they are or as its own shortest text.
 */
const oddInRow =
  /[:,[-]\s*\d{16}|\d\.\d{18}|[1-9]\.\d{16}|\.\d*0(?!\d)|\d[eE][-+\d]|-0(?![.\d])|\.0{6}/;
/** Up to so many fields are looked at one by one. */
const fewNames = 8;
const wholeNumber = /^-?\d+$/;
/** Texts below this length have fewer digits than a `number` always holds. */
const shortNumber = 16;

/**
 * What `JSON.parse` gives, but whole numbers that a `number` cannot hold as `bigint`. A number
 * written with a point or an exponent stays a `number`, unless it is too large for one.
 *
 * @param longNumbers `text`: all numbers that JavaScript would round are their text.
 * @throws SyntaxError as `JSON.parse` does.
 * @example
 * parseExactly('{"id":9007199254740993,"x":1e20}'); // { id: 9007199254740993n, x: 1e20 }
 * parseExactly('{"id":9007199254740993}', "text"); // { id: "9007199254740993" }
 */
export function parseExactly(text: string, longNumbers: LongNumbers = "bigint"): ExactJson {
  const long = longNumbers === "text" ? longNumber : longWhole;
  if (!long.test(text)) return JSON.parse(text) as ExactJson;
  return parse(text, (_key, value, { source = "" }) => {
    if (typeof value !== "number" || isPlain(value, source)) return value;
    const special = specialNumbers.get(source);
    if (special !== undefined) return special;
    if (longNumbers === "text") return isHeld(source, value) ? value : source;
    if (isLongWhole(source, value)) return BigInt(source);
    return Number.isFinite(value) ? value : source;
  }) as ExactJson;
}

/**
 * What `JSON.parse` gives, but numbers whose text JavaScript would write in another way, as `1.0`,
 * as `WrittenNumber`.
 *
 * @throws SyntaxError as `JSON.parse` does.
 * @example
 * parseWritten('{"stars":5.0,"n":2}'); // { stars: WrittenNumber("5.0"), n: 2 }
 */
export function parseWritten(text: string): WrittenJson {
  if (!oddNumber.test(text)) return JSON.parse(text) as WrittenJson;
  return parse(text, (_key, value, { source = "" }) =>
    typeof value === "number" && !isPlain(value, source) ? new WrittenNumber(source) : value,
  ) as WrittenJson;
}

/**
 * The row with the texts of its numbers. What prompts are made of.
 *
 * @param value what `JSON.parse` gives of `raw`, of which only what lacks a text is made anew.
 * @param names the fields whose numbers matter; default all.
 * @example
 * writtenRow({ stars: 5 }, '{"stars":5.0}'); // { stars: WrittenNumber("5.0") }
 */
export function writtenRow(
  value: JsonObject,
  raw: string,
  names: readonly string[] = Object.keys(value),
): WrittenRow {
  if (names.length > fewNames && !oddInRow.test(raw)) return value;
  let texts: ReadonlyMap<string, string> | undefined;
  let written: WrittenRow | undefined;
  for (const name of names) {
    const own = Object.hasOwn(value, name) ? value[name] : null;
    if (own === null || (typeof own !== "number" && typeof own !== "object")) continue;
    texts ??= memberTexts(raw);
    const text = texts.get(name)!;
    if (typeof own === "number" ? isPlain(own, text) : !oddNumber.test(text)) continue;
    written ??= { ...value };
    written[name] = parseWritten(text);
  }
  return written ?? value;
}

/**
 * A value as code gets it: a `WrittenNumber` is a `bigint` or a number. What has none is the same
 * object.
 *
 * @example
 * inCode({ id: new WrittenNumber("9007199254740993") }); // { id: 9007199254740993n }
 */
export function inCode(value: WrittenJson): ExactJson {
  return changedNumbers(value, (number) => number.exact) as ExactJson;
}

/** A value in which numbers that JavaScript would round are their text. */
export function withTexts(value: WrittenJson): WrittenJson {
  const change = (number: WrittenNumber) =>
    number.isSpecial || isHeld(number.text, number.valueOf()) ? number : number.text;
  return changedNumbers(value, change);
}

/**
 * What code made of a value, with the texts of those numbers that stand where they stood before:
 * what passes through code comes out as it went in.
 */
export function restoredNumbers(value: WrittenJson, before: WrittenJson | undefined): WrittenJson {
  if (before instanceof WrittenNumber) {
    const isSame = value === before.valueOf() || value === before.text;
    return isSame ? before : value;
  }
  if (!isContainer(before) || !isContainer(value)) return value;
  return changedMembers(value, (inner, key) =>
    restoredNumbers(inner, Object.hasOwn(before, key) ? before[key] : undefined),
  );
}

type Container = { [key: string]: WrittenJson };

function isContainer(value: WrittenJson | undefined): value is Container {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null;
}

function changedNumbers(
  value: WrittenJson,
  change: (number: WrittenNumber) => WrittenJson,
): WrittenJson {
  if (value instanceof WrittenNumber) return change(value);
  if (!isContainer(value)) return value;
  return changedMembers(value, (inner) => changedNumbers(inner, change));
}

/** A copy of a list or an object with members changed; itself where none is. */
function changedMembers(
  value: Container,
  change: (inner: WrittenJson, key: string) => WrittenJson,
): WrittenJson {
  let copy: Container | undefined;
  for (const key in value) {
    const inner = value[key]!;
    if (typeof inner !== "object" && typeof inner !== "number" && typeof inner !== "string") {
      continue;
    }
    const changed = change(inner, key);
    if (changed === inner) continue;
    copy ??= Array.isArray(value) ? ([...value] as unknown as Container) : { ...value };
    copy[key] = changed;
  }
  return copy ?? value;
}

/**
 * What `JSON.parse` gives of JSON as programs write it to one another, without line breaks; whole
 * numbers that no `number` holds, NaN and infinities are `WrittenNumber`, which `JSON.stringify`
 * writes again.
 *
 * @throws SyntaxError as `JSON.parse` does.
 */
export function parseMessage(text: string): unknown {
  if (!/[:,[-] ?\d{16}/.test(text) && !text.includes(specialMark)) return JSON.parse(text);
  return parse(text, (_key, value, { source = "" }) => {
    const isWritten =
      typeof value === "number" && (isLongWhole(source, value) || specialNumbers.has(source));
    return isWritten ? new WrittenNumber(source) : value;
  });
}

/** What `JSON.stringify` makes of a message, with every digit of a `bigint`. */
export function messageText(message: unknown): string {
  return JSON.stringify(message, (_key, value: unknown) =>
    typeof value === "bigint" ? rawJson(String(value)) : value,
  );
}

/** With an exponent, for without it a long whole number would be read as one with all digits. */
function numberText(value: number): string {
  if (Object.is(value, -0)) return "-0";
  return isLongFloat(value) ? value.toExponential() : JSON.stringify(value);
}

/** A number that comes from code, which JSON is to have with all its digits. */
export function writtenOf(value: number | bigint): number | WrittenNumber {
  if (typeof value === "bigint") {
    const isShort = BigInt.asIntN(54, value) === value && Number.isSafeInteger(Number(value));
    return isShort ? Number(value) : new WrittenNumber(String(value));
  }
  return isLongFloat(value) ? new WrittenNumber(numberText(value)) : value;
}

/** Node's own, which tells a reviver the text of each number; the types do not know yet. */
const parse = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown;

/** Node's own as well: what `JSON.stringify` writes as this text. */
const { rawJSON: rawJson } = JSON as unknown as { rawJSON(text: string): unknown };

/** Whether a number, written again, has the same text and all its digits. */
function isPlain(value: number, text: string): boolean {
  // Short texts are compared by what may be odd about them: to write a number takes longer.
  if (text.length < shortNumber && !oddNumber.test(text)) return true;
  return String(value) === text && !isLongWhole(text, value);
}

function isLongFloat(value: number): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}

function isLongWhole(text: string, value: number): boolean {
  return !Number.isSafeInteger(value) && wholeNumber.test(text);
}

/** Whether a value is the number that a text writes, to the last digit. */
function isHeld(text: string, value: number): boolean {
  if (!Number.isFinite(value)) return false;
  if (wholeNumber.test(text)) return BigInt(text) === BigInt(value);
  return decimalOf(text) === decimalOf(String(value));
}

/** A number in one way of writing: its digits without zeros around them, and an exponent. */
function decimalOf(text: string): string {
  const [, sign, whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(text)!;
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  const trimmed = digits.slice(0, end);
  if (trimmed === "") return "0";
  return `${sign}${trimmed}e${Number(exponent) - fraction.length + digits.length - trimmed.length}`;
}

/**
 * The JSON text of a value, every digit of a `bigint` and the text of a `WrittenNumber` included;
 * null for NaN and infinities.
 *
 * @example
 * exactText({ id: 9007199254740993n }); // '{"id":9007199254740993}'
 */
export function exactText(value: ExactJson | WrittenJson): string {
  return textOf(value, () => "null");
}

/** The same as a line that Sluice keeps for itself: with `specialText` for NaN and infinities. */
export function keptText(value: ExactJson | WrittenJson): string {
  return textOf(value, specialText);
}

function textOf(value: ExactJson | WrittenJson, special: (number: number) => string): string {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return Number.isFinite(value) ? numberText(value) : special(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (value instanceof WrittenNumber) return value.isSpecial ? special(+value) : value.text;
  if (Array.isArray(value)) return `[${value.map((inner) => textOf(inner, special)).join(",")}]`;
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${textOf(member, special)}`,
  );
  return `{${members.join(",")}}`;
}
