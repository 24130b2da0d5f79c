import { assertChars, assertElements } from "./template-work.ts";

// The memory that an operation on a text takes depends on its result: a list of letters, or of all
// matches of a pattern, takes up to 30 times as much as the text. So long texts are processed in
// pieces.

/** A text up to this length is searched as a whole. */
const pieceChars = 256 * 1024;

/** The letters of a text, each a code point. */
export function lettersOf(text: string): string[] {
  assertElements(text.length);
  return Array.from(text);
}

export function letterCount(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) if (isPair(text, at)) count--;
  return count;
}

/** `text[start:stop]`, counted in letters; negative positions count from the end. */
export function textSlice(text: string, start: number, stop: number): string {
  return text.slice(offsetOf(text, start), offsetOf(text, stop));
}

/** `text[at]`, counted in letters, from the end if negative; undefined beyond the text. */
export function letterAt(text: string, at: number): string | undefined {
  return textSlice(text, at, at === -1 ? Number.POSITIVE_INFINITY : at + 1) || undefined;
}

function offsetOf(text: string, letters: number): number {
  let at = letters < 0 ? text.length : 0;
  for (let left = letters; left > 0 && at < text.length; left--) at += isPair(text, at) ? 2 : 1;
  for (let left = letters; left < 0 && at > 0; left++) at -= isPair(text, at - 2) ? 2 : 1;
  return at;
}

/** True if two UTF-16 units at `at` form one letter. */
function isPair(text: string, at: number): boolean {
  const isFirst = (text.charCodeAt(at) & 0xfc00) === 0xd800;
  return isFirst && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
}

export function matchesOf(text: string, pattern: RegExp): Iterable<string> {
  return text.length <= pieceChars ? (text.match(pattern) ?? []) : eachMatch(text, pattern);
}

function* eachMatch(text: string, pattern: RegExp): Generator<string> {
  for (const [match] of text.matchAll(pattern)) yield match;
}

export function matchCount(text: string, pattern: RegExp): number {
  let count = 0;
  for (const _ of matchesOf(text, pattern)) count++;
  return count;
}

/** How often `part` occurs in a text. */
export function countOf(text: string, part: string): number {
  if (part === "") return text.length + 1;
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count++;
  return count;
}

/**
 * `text.replace(pattern, replacement)` piece by piece, because a search keeps all its matches until
 * its end.
 *
 * @param inside letters that a match may contain or touch: no piece ends between two of them.
 */
export function replacedInPieces(
  text: string,
  pattern: RegExp,
  replacement: (match: string) => string,
  inside: RegExp,
): string {
  if (text.length <= pieceChars) return text.replace(pattern, replacement);
  let replaced = "";
  for (let from = 0; from < text.length; ) {
    let to = from + pieceChars;
    while (to < text.length && inside.test(text[to - 1]!) && inside.test(text[to]!)) to++;
    replaced += text.slice(from, to).replace(pattern, replacement);
    assertChars(replaced.length);
    from = to;
  }
  return replaced;
}

/** The text with each run of white space as one blank. */
export function spacedOnce(text: string): string {
  return replacedInPieces(text, /\s+/gu, () => " ", /\s/);
}
