import type { WrittenJson } from "../foundation/exact-json.ts";
import { lettersOf, matchesOf } from "./long-text.ts";
import { splitSentences } from "./sentences.ts";
import { assertChars, assertElements } from "./template-work.ts";
import { type Filter, type FilterArguments, usualFilters } from "./usual-filters.ts";
import { isObject, kindOf, printValue } from "./value-text.ts";

/** Filters of the library, which checks itself what values they take. */
const libraryFilters = [
  ...["safe", "tojson", "first", "last", "string", "items"],
  ...["upper", "lower", "indent"],
  ...["bool", "default", "replace", "get", "keys", "values"],
  "dictsort",
];

/** Filters that apply another filter or a test to each element; the interpreter handles them. */
export const elementFilters: ReadonlySet<string> = new Set([
  ...["map", "select", "reject", "selectattr", "rejectattr"],
]);

/** Filters that cut a text, or each text of a list, into pieces and return one flat list. */
export const cuttingFilters: Readonly<Record<string, (input: WrittenJson) => string[]>> =
  Object.freeze({
    sentences: (input) => piecesOf(textsOf("sentences", input), splitSentences),
    words: (input) => piecesOf(textsOf("words", input), (text) => matchesOf(text, /\S+/gu)),
    lines: (input) => piecesOf(textsOf("lines", input), linesOf),
  });

/**
 * The filters that Sluice adds to Jinja or replaces. They throw a plain `Error` that says what does
 * not fit; the interpreter adds prompt and field.
 *
 * - `sentences`: the sentences of a text or of a list of texts;
 * - `words`: its words, separated by white space;
 * - `lines`: its lines, trimmed, without empty ones;
 * - usual filters of Jinja that the library lacks: `usual-filters.ts`;
 * - `join(separator, attribute)`: as in Jinja; lists and objects inside are printed as by `{{ }}`.
 */
export const ownFilters: Readonly<Record<string, Filter>> = Object.freeze({
  ...cuttingFilters,
  ...usualFilters,
  join,
});

/** Names of all filters that a template may use. */
export const filterNames: readonly string[] = [
  ...libraryFilters,
  ...elementFilters,
  "d",
  ...Object.keys(ownFilters),
];

/** The texts of a text or of a list of texts; null elements are skipped. */
function textsOf(name: string, input: WrittenJson): string[] {
  const texts: string[] = [];
  for (const text of Array.isArray(input) ? input : [input]) {
    if (typeof text === "string") texts.push(text);
    else if (text !== null || !Array.isArray(input)) {
      throw new Error(`${name} takes a text or a list of texts, not ${kindOf(text)}`);
    }
  }
  return texts;
}

function piecesOf(texts: readonly string[], cut: (text: string) => Iterable<string>): string[] {
  const pieces: string[] = [];
  for (const text of texts) {
    for (const piece of cut(text)) assertElements(pieces.push(piece));
  }
  return pieces;
}

function* linesOf(text: string): Generator<string> {
  for (const line of matchesOf(text, /[^\r\n]+/g)) {
    const trimmed = line.trim();
    if (trimmed !== "") yield trimmed;
  }
}

function join(input: WrittenJson, { positional, named }: FilterArguments): WrittenJson {
  const separator = positional[0] ?? named.separator ?? named.d ?? "";
  const attribute = positional[1] ?? named.attribute ?? null;
  if (typeof separator !== "string") throw new Error("join takes a text as separator");
  if (typeof input === "string") return joined(lettersOf(input), separator);
  if (!Array.isArray(input)) throw new Error(`join takes a list, not ${kindOf(input)}`);
  const texts = input.map((element) => {
    if (attribute === null) return printValue(element);
    if (isObject(element) && Object.hasOwn(element, String(attribute))) {
      return printValue(element[String(attribute)]!);
    }
    throw new Error(`join by ${attribute}: ${kindOf(element)} without it`);
  });
  return joined(texts, separator);
}

function joined(texts: readonly string[], separator: string): string {
  assertChars(texts.reduce((chars, text) => chars + text.length + separator.length, 0));
  return texts.join(separator);
}
