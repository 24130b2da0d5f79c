import type { JsonObject } from "./json.ts";
import { memberTexts } from "./json-members.ts";

/**
 * A JSON value that loses no digit: a whole number beyond ±(2^53 − 1) is a `bigint`, and a number
 * too large for JavaScript, such as `1e400`, is its text.
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
 * How numbers are read that JavaScript would round. `bigint`: whole numbers become a `bigint`,
 * others the nearest `number`. `text`: all of them become the text in which they are written.
 */
export type LongNumbers = "bigint" | "text";

/**
 * How the texts of `specialNumbers` end. No program writes a number like this. A text of fewer than
 * 7 characters that begins with a rare one is found at the speed of memory.
 */
const specialMark = "+00999";
/**
 * The text that stands for NaN and infinities in files that Sluice keeps for itself. It is valid
 * JSON. In JSON for users it becomes `null`.
 */
const specialNumbers: ReadonlyMap<string, number> = new Map([
  [`1e${specialMark}`, Number.POSITIVE_INFINITY],
  [`-1e${specialMark}`, Number.NEGATIVE_INFINITY],
  [`9e${specialMark}`, Number.NaN],
]);
const specialOrText = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\de\+00999/g;

/** The text of NaN or an infinity in files that Sluice keeps for itself. */
export function specialText(value: number): string {
  if (Number.isNaN(value)) return `9e${specialMark}`;
  return value > 0 ? `1e${specialMark}` : `-1e${specialMark}`;
}

/**
 * JSON for users: NaN and infinities become null.
 *
 * @example
 * withoutSpecials(`{"x":${specialText(Number.NaN)}}`); // '{"x":null}'
 */
export function withoutSpecials(json: string): string {
  if (!json.includes(specialMark)) return json;
  return json.replace(specialOrText, (found) => (specialNumbers.has(found) ? "null" : found));
}

/** `JSON.parse`, but texts written by `specialText` become NaN and infinities again. */
export function parseSpecials(text: string): unknown {
  if (!text.includes(specialMark)) return JSON.parse(text);
  return parse(text, (_key, value, { source = "" }) => specialNumbers.get(source) ?? value);
}

/**
 * A JSON number with the text in which it is written, such as `1.0` or `1e400`. It calculates as a
 * number; `JSON.stringify` and `String` write the text.
 */
export class WrittenNumber extends Number {
  readonly text: string;

  constructor(text: string) {
    super(specialNumbers.get(text) ?? text);
    this.text = text;
  }

  /** The number as user code gets it: a `bigint` if it is whole and too large for a `number`. */
  get exact(): number | bigint {
    const value = this.valueOf();
    return isLongWhole(this.text, value) ? BigInt(this.text) : value;
  }

  /** True for NaN and infinities, whose text must not leave Sluice. */
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

/** A JSON value with `WrittenNumber` for each number that JavaScript would write differently. */
export type WrittenJson =
  | null
  | boolean
  | number
  | bigint
  | WrittenNumber
  | string
  | WrittenJson[]
  | { [key: string]: WrittenJson };

/** A row that keeps the text of its numbers. */
export type WrittenRow = { [key: string]: WrittenJson };

/** Matches every JSON text that holds a whole number beyond `number`, and some others. */
const longWhole = /(?<![.\d])\d{16}|\d[eE]\+?\d{3}/;
/** Matches every JSON text with digits that a `number` may lose, and some others. */
const longNumber = /\d(?:\.?\d){15}|\d[eE]/;
/** Matches every JSON text with a number that JavaScript writes differently, and some others. */
const oddNumber = /\d(?:\.?\d){15}|\d[eE]|\.\d*0(?!\d)|-0(?!\.)|\.0{6}/;
/**
 * As `oddNumber`, faster on rows of many floats. It ignores decimals of up to 17 digits: a `number`
 * writes them back unchanged, or as its own shortest text.
 */
const oddInRow =
  /[:,[-]\s*\d{16}|\d\.\d{18}|[1-9]\.\d{16}|\.\d*0(?!\d)|\d[eE][-+\d]|-0(?![.\d])|\.0{6}/;
/** Up to this many fields are checked one by one. */
const fewNames = 8;
const wholeNumber = /^-?\d+$/;
/** A shorter text has so few digits that a `number` holds them all. */
const shortNumber = 16;

/**
 * `JSON.parse`, but whole numbers that a `number` cannot hold become a `bigint`. A number written
 * with a point or an exponent stays a `number`, unless it is too large for one.
 *
 * @param longNumbers `text`: every number that JavaScript would round becomes its text.
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
 * `JSON.parse`, but a number such as `1.0`, which JavaScript would write differently, becomes a
 * `WrittenNumber`.
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
 * The row with the texts of its numbers, for prompts.
 *
 * @param value what `JSON.parse` makes of `raw`; only the parts that lose a text are copied.
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
 * A value as user code gets it: each `WrittenNumber` becomes a `number` or a `bigint`. A value
 * without any is returned as it is.
 *
 * @example
 * toCodeValue({ id: new WrittenNumber("9007199254740993") }); // { id: 9007199254740993n }
 */
export function toCodeValue(value: WrittenJson): ExactJson {
  return changedNumbers(value, (number) => number.exact) as ExactJson;
}

/** A value in which every number that JavaScript would round is its text. */
export function numbersAsTexts(value: WrittenJson): WrittenJson {
  const change = (number: WrittenNumber) =>
    number.isSpecial || isHeld(number.text, number.valueOf()) ? number : number.text;
  return changedNumbers(value, change);
}

/**
 * The result of user code, with the original text of each number that it left in place. So a value
 * that code only passes on is written as it was read.
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

/** A copy of a list or object with the changed members; the same object if nothing changes. */
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
 * `JSON.parse` for messages between processes. Whole numbers beyond `number`, NaN and infinities
 * become `WrittenNumber`, which `JSON.stringify` writes unchanged.
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

/** `JSON.stringify` for messages between processes, with every digit of a `bigint`. */
export function messageText(message: unknown): string {
  return JSON.stringify(message, (_key, value: unknown) =>
    typeof value === "bigint" ? rawJson(String(value)) : value,
  );
}

/** Writes an exponent: without it a long whole number would be read as exact. */
function numberText(value: number): string {
  if (Object.is(value, -0)) return "-0";
  return isLongFloat(value) ? value.toExponential() : JSON.stringify(value);
}

/** A number from user code, in a form that JSON writes with all its digits. */
export function toWrittenNumber(value: number | bigint): number | WrittenNumber {
  if (typeof value === "bigint") {
    const isShort = BigInt.asIntN(54, value) === value && Number.isSafeInteger(Number(value));
    return isShort ? Number(value) : new WrittenNumber(String(value));
  }
  if (!Number.isFinite(value)) return new WrittenNumber(specialText(value));
  return isLongFloat(value) ? new WrittenNumber(numberText(value)) : value;
}

/** Node passes the text of each number to a reviver; the types do not have it yet. */
const parse = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown;

/** Makes an object that `JSON.stringify` writes as this text. The types do not have it yet. */
const { rawJSON: rawJson } = JSON as unknown as { rawJSON(text: string): unknown };

/** Whether JavaScript writes a number with the same text, and so with all its digits. */
function isPlain(value: number, text: string): boolean {
  // A short text is tested by pattern, which is faster than writing the number.
  if (text.length < shortNumber && !oddNumber.test(text)) return true;
  return String(value) === text && !isLongWhole(text, value);
}

function isLongFloat(value: number): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}

function isLongWhole(text: string, value: number): boolean {
  return !Number.isSafeInteger(value) && wholeNumber.test(text);
}

/** Whether a `number` is exactly the number in the text. */
function isHeld(text: string, value: number): boolean {
  if (!Number.isFinite(value)) return false;
  if (wholeNumber.test(text)) return BigInt(text) === BigInt(value);
  return decimalOf(text) === decimalOf(String(value));
}

/** A number in one normal form: its digits without zeros around them, and an exponent. */
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
 * The JSON text of a value, with every digit of a `bigint` and the text of each `WrittenNumber`.
 * NaN and infinities are null.
 *
 * @example
 * exactText({ id: 9007199254740993n }); // '{"id":9007199254740993}'
 */
export function exactText(value: ExactJson | WrittenJson): string {
  return textOf(value, () => "null");
}

/** As `exactText`, for files that Sluice keeps for itself: NaN and infinities are `specialText`. */
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
