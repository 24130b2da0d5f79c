import { type WrittenJson, WrittenNumber } from "../foundation/exact-json.ts";
import {
  letterCount,
  lettersOf,
  matchCount,
  replacedInPieces,
  spacedOnce,
  textSlice,
} from "./long-text.ts";
import { assertChars, assertElements, assertWidth } from "./template-work.ts";
import { decimal, isNumber, isObject, kindOf, printValue } from "./value-text.ts";

/** Arguments of a filter, by position and by keyword. */
export interface FilterArguments {
  positional: readonly WrittenJson[];
  named: Readonly<Record<string, WrittenJson>>;
}

/** Makes a filter's result from its input; throws a plain `Error` that says what does not fit. */
export type Filter = (input: WrittenJson, given: FilterArguments) => WrittenJson;

/** Jinja's filters that the library lacks or restricts, with the same results as in Jinja. */
export const usualFilters: Readonly<Record<string, Filter>> = Object.freeze({
  abs: absolute,
  batch,
  capitalize: (input) => capitalized(textOf("capitalize", input)),
  center: (input, given) => centered(textOf("center", input), wholeOf(given, 0, "width", 80)),
  count: length,
  e: escaped,
  escape: escaped,
  float,
  format,
  groupby,
  int: whole,
  length,
  list: (input) => elementsOf("list", input),
  max: (input, given) => extreme("max", input, given),
  min: (input, given) => extreme("min", input, given),
  reverse: (input) => {
    const reversed = elementsOf("reverse", input).toReversed();
    return typeof input === "string" ? reversed.join("") : reversed;
  },
  round,
  sort: sorted,
  striptags: (input) => spacedOnce(withoutTags(textOf("striptags", input))).trim(),
  sum,
  trim: (input, given) => trimmed(textOf("trim", input), argumentOf(given, 0, "chars")),
  truncate,
  title: (input) => titled(textOf("title", input)),
  unique,
  urlencode: encoded,
  wordcount: (input) => matchCount(textOf("wordcount", input), /[\p{L}\p{N}_]+/gu),
});

function argumentOf(
  { positional, named }: FilterArguments,
  at: number,
  name: string,
): WrittenJson | undefined {
  return positional[at] ?? named[name];
}

function wholeOf(given: FilterArguments, at: number, name: string, otherwise: number): number {
  const value = Number(argumentOf(given, at, name) ?? otherwise);
  if (Number.isInteger(value)) return value;
  throw new Error(`${name} must be a whole number`);
}

function textOf(filter: string, input: WrittenJson): string {
  if (typeof input === "string" || isNumber(input)) return String(input);
  throw new Error(`${filter} takes a text, not ${kindOf(input)}`);
}

function elementsOf(filter: string, input: WrittenJson): WrittenJson[] {
  if (Array.isArray(input)) return input;
  if (typeof input === "string") return lettersOf(input);
  if (isObject(input)) return Object.keys(input);
  throw new Error(`${filter} takes a list, not ${kindOf(input)}`);
}

function length(input: WrittenJson): number {
  return typeof input === "string" ? letterCount(input) : elementsOf("length", input).length;
}

function batch(input: WrittenJson, given: FilterArguments): WrittenJson {
  const size = wholeOf(given, 0, "linecount", 1);
  if (size < 1) throw new Error("linecount must be at least 1");
  const fill = argumentOf(given, 1, "fill_with");
  const elements = elementsOf("batch", input);
  const batches: WrittenJson[][] = [];
  for (let at = 0; at < elements.length; at += size) batches.push(elements.slice(at, at + size));
  const last = batches.at(-1);
  if (fill !== undefined) assertElements(size);
  while (fill !== undefined && last && last.length < size) last.push(fill);
  return batches;
}

function centered(text: string, width: number): string {
  assertWidth("center", width);
  const blanks = Math.max(0, width - letterCount(text));
  const before = Math.floor(blanks / 2) + ((blanks % 2) & (width % 2));
  return " ".repeat(before) + text + " ".repeat(blanks - before);
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "'": "&#39;",
  '"': "&#34;",
};

function escaped(input: WrittenJson): string {
  const text = printValue(input);
  return replacedInPieces(text, /[&<>'"]/g, (character) => entities[character]!, /(?!)/);
}

/** As in Jinja: blanks, hyphens and opening brackets separate words. */
function titled(text: string): string {
  const firstLetter = /(?<![^\s({[<-])[^\s({[<-]/gu;
  const upper = (letter: string) => letter.toUpperCase();
  return replacedInPieces(text.toLowerCase(), firstLetter, upper, /[^\s({[<-]/);
}

function capitalized(text: string): string {
  const [first = ""] = text;
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}

function encoded(input: WrittenJson): string {
  const text = printValue(input);
  assertChars(text.length * 3);
  const kept = /[!'()*]/g;
  return encodeURIComponent(text)
    .replaceAll("%2F", "/")
    .replace(kept, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The text without `<tag>` and `<!-- comment -->`. Searches for each end only once. */
function withoutTags(text: string): string {
  const lastTagEnd = text.lastIndexOf(">");
  const lastCommentEnd = text.lastIndexOf("-->");
  let kept = "";
  let at = 0;
  for (let open = text.indexOf("<"); open >= 0 && open < lastTagEnd; open = text.indexOf("<", at)) {
    const isComment = text.startsWith("<!--", open) && open + 4 <= lastCommentEnd;
    kept += text.slice(at, open);
    at = isComment ? text.indexOf("-->", open + 4) + 3 : text.indexOf(">", open) + 1;
  }
  return kept + text.slice(at);
}

/** `"%s: %.2f" | format(name, price)`, with the printf signs that Jinja supports. */
function format(input: WrittenJson, { positional }: FilterArguments): string {
  let next = 0;
  let chars = 0;
  const pattern = /%([-+0]*)((?:[1-9]\d*)?)(?:\.(\d+))?([a-zA-Z%])/g;
  return textOf("format", input).replace(
    pattern,
    (sign, flags: string, width, digits?: string, kind?: string) => {
      if (kind === "%") return "%";
      assertWidth("format", width);
      const value = positional[next++];
      if (value === undefined) throw new Error(`format has no value for ${sign}`);
      const text = formatted(value, sign, kind!, digits);
      chars += text.length;
      assertChars(chars);
      const signed =
        flags.includes("+") && kind !== "s" && !text.startsWith("-") ? `+${text}` : text;
      if (flags.includes("-")) return signed.padEnd(Number(width));
      if (!flags.includes("0") || kind === "s") return signed.padStart(Number(width));
      const [, minus = "", rest = ""] = /^([-+]?)(.*)$/.exec(signed)!;
      return minus + rest.padStart(Number(width) - minus.length, "0");
    },
  );
}

function formatted(value: WrittenJson, sign: string, kind: string, digits = ""): string {
  if (kind === "s") return digits === "" ? printValue(value) : printValue(value).slice(0, +digits);
  if (!isNumber(value)) throw new Error(`format takes a number for ${sign}, not ${kindOf(value)}`);
  if (kind === "d" || kind === "i") return String(whole(value, { positional: [], named: {} }));
  if (kind === "f") {
    const places = digits === "" ? 6 : Number(digits);
    return roundedToEven(Number(value), places).toFixed(places);
  }
  throw new Error(`format does not know ${sign}`);
}

/** The value of an attribute such as `order.total`; without an attribute, the element itself. */
function attributeOf(filter: string, element: WrittenJson, attribute: WrittenJson | undefined) {
  let value = element;
  for (const step of attribute === undefined ? [] : String(attribute).split(".")) {
    const inner: WrittenJson | undefined = Array.isArray(value)
      ? value[Number(step)]
      : isObject(value) && Object.hasOwn(value, step)
        ? value[step]
        : undefined;
    if (inner === undefined) throw new Error(`${filter} by ${attribute}: an element lacks it`);
    value = inner;
  }
  return value;
}

/** Whether one value sorts before another: numbers by size, texts without letter case. */
function isBefore(a: WrittenJson, b: WrittenJson): boolean {
  if (isNumber(a) && isNumber(b)) return exactOf(a) < exactOf(b);
  return String(a).toLowerCase() < String(b).toLowerCase();
}

function exactOf(number: number | bigint | WrittenNumber): number | bigint {
  return number instanceof WrittenNumber ? number.exact : number;
}

function groupby(input: WrittenJson, given: FilterArguments): WrittenJson {
  const attribute = argumentOf(given, 0, "attribute");
  if (attribute === undefined) throw new Error("groupby needs an attribute");
  const groups = new Map<string, [WrittenJson, WrittenJson[]]>();
  for (const element of elementsOf("groupby", input)) {
    const value = attributeOf("groupby", element, attribute);
    const key = keyOf(value, false);
    if (!groups.has(key)) groups.set(key, [value, []]);
    groups.get(key)![1].push(element);
  }
  return [...groups.values()].sort(([a], [b]) => (isBefore(a, b) ? -1 : isBefore(b, a) ? 1 : 0));
}

/** Equal for equal values; without `isCaseSensitive`, for texts that differ in letter case, too. */
function keyOf(value: WrittenJson, isCaseSensitive: boolean): string {
  if (isNumber(value)) return `number ${exactOf(value)}`;
  const text = printValue(value);
  return `${typeof value} ${isCaseSensitive ? text : text.toLowerCase()}`;
}

function unique(input: WrittenJson, given: FilterArguments): WrittenJson {
  const isCaseSensitive = argumentOf(given, 0, "case_sensitive") === true;
  const attribute = argumentOf(given, 1, "attribute");
  const found = new Map<string, WrittenJson>();
  for (const element of elementsOf("unique", input)) {
    const key = keyOf(attributeOf("unique", element, attribute), isCaseSensitive);
    if (!found.has(key)) found.set(key, element);
  }
  return [...found.values()];
}

function sorted(input: WrittenJson, given: FilterArguments): WrittenJson {
  const [isReversed, isCaseSensitive] = [
    argumentOf(given, 0, "reverse") === true,
    argumentOf(given, 1, "case_sensitive") === true,
  ];
  const attribute = argumentOf(given, 2, "attribute");
  const elements = elementsOf("sort", input);
  if (elements.length < 2) return elements;
  const keyed = elements.map((element) => {
    const value = attributeOf("sort", element, attribute);
    const key = typeof value === "boolean" ? Number(value) : value;
    if (typeof key !== "string" && !isNumber(key)) {
      throw new Error(`sort takes texts or numbers, not ${kindOf(value)}`);
    }
    return { element, key };
  });
  if (new Set(keyed.map(({ key }) => isNumber(key))).size > 1) {
    throw new Error("sort takes texts or numbers, not both");
  }
  const isFirst = (a: WrittenJson, b: WrittenJson) =>
    isCaseSensitive && typeof a === "string" ? a < String(b) : isBefore(a, b);
  const sign = isReversed ? -1 : 1;
  keyed.sort(({ key: a }, { key: b }) => (isFirst(a, b) ? -sign : isFirst(b, a) ? sign : 0));
  return keyed.map(({ element }) => element);
}

function absolute(input: WrittenJson): WrittenJson {
  if (!isNumber(input)) throw new Error(`abs takes a number, not ${kindOf(input)}`);
  if (typeof input === "bigint") return input < 0n ? -input : input;
  const text = String(input);
  return text.startsWith("-") ? new WrittenNumber(text.slice(1)) : input;
}

/** As `float` in Python; `default` if a text is not a number. */
function float(input: WrittenJson, given: FilterArguments): WrittenJson {
  if (typeof input === "boolean") return decimal(Number(input));
  const text = textOf("float", input).trim();
  const isNumeral = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text);
  if (!isNumeral && !isNumber(input)) return argumentOf(given, 0, "default") ?? decimal(0);
  return decimal(Number(text));
}

/** As `int` in Python: toward zero, with all digits; `default` if a text is not a number. */
function whole(input: WrittenJson, given: FilterArguments): WrittenJson {
  if (typeof input === "boolean") return Number(input);
  const text = textOf("int", input).trim();
  if (/^[-+]?\d+$/.test(text)) return shortest(BigInt(text));
  const value = isNumber(input) ? Number(input) : Number(text === "" ? Number.NaN : text);
  if (Number.isNaN(value)) return argumentOf(given, 0, "default") ?? 0;
  if (!Number.isFinite(value)) throw new Error(`int: ${text} is not a whole number`);
  return shortest(BigInt(Math.trunc(value)));
}

function shortest(value: bigint): number | bigint {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/** As `round` in Python: halves go to the even neighbour; a decimal stays one, such as `2.0`. */
function round(input: WrittenJson, given: FilterArguments): WrittenJson {
  if (!isNumber(input)) throw new Error(`round takes a number, not ${kindOf(input)}`);
  const precision = wholeOf(given, 0, "precision", 0);
  const isWhole = /^-?\d+$/.test(String(input));
  if (isWhole && precision >= 0) return input;
  const method = String(argumentOf(given, 1, "method") ?? "common");
  if (!["common", "ceil", "floor"].includes(method)) {
    throw new Error("method must be common, ceil or floor");
  }
  const [value, factor] = [Number(input), 10 ** precision];
  const rounded =
    method === "ceil"
      ? Math.ceil(value * factor) / factor
      : method === "floor"
        ? Math.floor(value * factor) / factor
        : roundedToEven(value, precision);
  if (isWhole && method === "common") return roundedWhole(BigInt(String(input)), -precision);
  return decimal(rounded);
}

/** A whole number with zeros in the last `zeros` places; halves go to the even neighbour. */
function roundedWhole(value: bigint, zeros: number): number | bigint {
  // Half of it would have more digits than the number.
  if (zeros > String(value).length) return 0;
  const unit = 10n ** BigInt(zeros);
  const below = (value - (((value % unit) + unit) % unit)) / unit;
  const twice = 2n * (value - below * unit);
  const isUp = twice > unit || (twice === unit && below % 2n !== 0n);
  return shortest((isUp ? below + 1n : below) * unit);
}

/** Digits that decide whether a number lies exactly half way between two shorter ones. */
const digitsBehindHalf = 40;

function roundedToEven(value: number, precision: number): number {
  if (precision < 0) {
    const tens = 10 ** -precision;
    return roundedToEven(value / tens, 0) * tens;
  }
  const digits = value.toFixed(Math.min(100, precision + digitsBehindHalf));
  const isHalf = /^50*$/.test(digits.slice(digits.indexOf(".") + 1 + precision));
  if (!isHalf) return Number(value.toFixed(precision));
  const factor = 10 ** precision;
  return (2 * Math.round((value * factor) / 2)) / factor;
}

function extreme(filter: "max" | "min", input: WrittenJson, given: FilterArguments): WrittenJson {
  const attribute = given.named.attribute;
  const elements = elementsOf(filter, input);
  if (elements.length === 0) throw new Error(`${filter} takes a list that is not empty`);
  return elements.reduce((best, next) => {
    const [a, b] = [best, next].map((each) => attributeOf(filter, each, attribute));
    return (filter === "min" ? isBefore(b!, a!) : isBefore(a!, b!)) ? next : best;
  });
}

function sum(input: WrittenJson, given: FilterArguments): WrittenJson {
  const attribute = argumentOf(given, 0, "attribute");
  const values = elementsOf("sum", input).map((each) => attributeOf("sum", each, attribute));
  const start = argumentOf(given, 1, "start");
  const numbers = [start ?? 0, ...values].map((value) => {
    if (isNumber(value)) return exactOf(value);
    throw new Error(`sum takes numbers, not ${kindOf(value)}`);
  });
  if (numbers.every((number) => typeof number === "bigint" || Number.isSafeInteger(number))) {
    return shortest(numbers.reduce<bigint>((total, number) => total + BigInt(number), 0n));
  }
  return numbers.reduce<number>((total, number) => total + Number(number), 0);
}

function trimmed(text: string, characters: WrittenJson | undefined): string {
  if (characters === undefined || characters === null) return text.trim();
  const cut = new Set(lettersOf(String(characters)));
  let [start, end] = [0, text.length];
  for (const letter of text) {
    if (!cut.has(letter)) break;
    start += letter.length;
  }
  for (let letter = ""; start < end; end -= letter.length) {
    letter = textSlice(text.slice(Math.max(start, end - 2), end), -1, 2);
    if (!cut.has(letter)) break;
  }
  return text.slice(start, end);
}

/** As in Jinja: at most `length` characters including the end, plus up to `leeway` more. */
function truncate(input: WrittenJson, given: FilterArguments): string {
  const text = textOf("truncate", input);
  const most = wholeOf(given, 0, "length", 255);
  const killsWords = argumentOf(given, 1, "killwords") === true;
  const end = String(argumentOf(given, 2, "end") ?? "...");
  const leeway = wholeOf(given, 3, "leeway", 5);
  if (letterCount(text) <= most + leeway) return text;
  const kept = textSlice(text, 0, Math.max(0, most - letterCount(end)));
  const lastBlank = kept.lastIndexOf(" ");
  return (killsWords || lastBlank < 0 ? kept : kept.slice(0, lastBlank)) + end;
}
