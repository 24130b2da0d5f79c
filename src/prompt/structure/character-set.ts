import { characters, type GrammarNode, oneOf, text } from "../../foundation/grammar.ts";

/** Ranges of code points, ascending and with gaps in between; both ends are included. */
export type CharacterSet = readonly (readonly [from: number, to: number])[];

const lastCodePoint = 0x10ffff;

/** Makes a set of ranges in any order. */
export function characterSet(ranges: CharacterSet): CharacterSet {
  const set: [number, number][] = [];
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const before = set.at(-1);
    if (before !== undefined && from <= before[1] + 1) before[1] = Math.max(before[1], to);
    else set.push([from, to]);
  }
  return set;
}

/** All code points outside of the set. */
export function complement(set: CharacterSet): CharacterSet {
  const rest: [number, number][] = [];
  let next = 0;
  for (const [from, to] of characterSet(set)) {
    if (from > next) rest.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= lastCodePoint) rest.push([next, lastCodePoint]);
  return rest;
}

/** Characters that a JSON string holds unescaped, except halves of a surrogate pair. */
const unescaped: CharacterSet = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, lastCodePoint],
];

/** Characters that a grammar allows after a backslash. */
const escapes: readonly (readonly [character: string, text: string])[] = [
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\n", "\\n"],
  ["\t", "\\t"],
  ["\r", "\\r"],
  ["\b", "\\b"],
  ["\f", "\\f"],
];

/** Every character that a structured answer may contain. */
export const anyCharacter: CharacterSet = [[0, lastCodePoint]];

/**
 * A character of the set in a JSON string, with a single spelling. Control characters without a
 * short escape are left out.
 */
export function jsonCharacter(set: CharacterSet): GrammarNode {
  const ranges = unescaped.flatMap(([low, high]) =>
    set.flatMap(([from, to]) => {
      const within = [Math.max(low, from), Math.min(high, to)] as const;
      return within[0] <= within[1] ? [within] : [];
    }),
  );
  const has = (code: number) => set.some(([from, to]) => from <= code && code <= to);
  const items: GrammarNode[] = escapes
    .filter(([character]) => has(character.codePointAt(0)!))
    .map(([, written]) => text(written));
  if (ranges.length > 0) items.unshift(characters(ranges));
  return oneOf(items);
}
