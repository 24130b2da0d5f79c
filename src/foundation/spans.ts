import { SluiceError } from "./errors.ts";
import type { Slot } from "./inference.ts";
import { limits } from "./limits.ts";
import { withinPatternTime } from "./time-limit.ts";

/** A word of a text and where it stands: `text.slice(start, end)`. */
interface Word {
  text: string;
  start: number;
  end: number;
}

const openers = "([{«“‘";
const closers = ")]}»”’";
const leadingMarks = new Set([...openers, ...`"'…,;:!?–—/|`]);
const trailingMarks = new Set([...closers, ...`"'….,;:!?–—-/|&`]);

/** The words of a text: runs without white space. An em dash separates words too. */
export function wordsOf(text: string): Word[] {
  return Array.from(text.matchAll(/[^\s—]+/gu), (match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length,
  }));
}

/**
 * A run of words without the punctuation around it, and with single spaces as white space. A
 * bracket stays if its partner is inside: `(190 degrees C).` becomes `190 degrees C`, and `375
 * degrees F (190 degrees C).` keeps its brackets. Signs of a number stay: `.5`, `-18`, `9"`.
 *
 * @example
 * trimSpan("medium heat,"); // "medium heat"
 */
export function trimSpan(span: string): string {
  const { start, end } = boundsWithin(span);
  return span.slice(start, end).replace(/\s+/gu, " ");
}

/** Where the text begins and ends without the punctuation around it, in linear time. */
function boundsWithin(text: string): { start: number; end: number } {
  let start = 0;
  let end = text.length;
  let brackets: Brackets | undefined;
  for (;;) {
    while (start < end && isBlank(text[start]!)) start++;
    while (end > start && isBlank(text[end - 1]!)) end--;
    if (start === end) return { start, end };
    const first = text[start]!;
    const last = text[end - 1]!;
    const opens = openers.includes(first);
    if (opens || closers.includes(last)) brackets ??= new Brackets(text);
    const partner = opens ? brackets!.partnerOf(start, end) : -1;
    if (opens && partner === end - 1) {
      start++;
      end--;
    } else if (leadingMarks.has(first) && partner < 0) start++;
    else if (isLooseSign(text, start, end)) start++;
    else if (!trailingMarks.has(last) || belongsToNumber(text, start, end)) return { start, end };
    else if (closers.includes(last) && brackets!.areBalanced(start, end)) return { start, end };
    else end--;
  }
}

function isBlank(character: string): boolean {
  return character.trim() === "";
}

/** A point or hyphen without a digit after it. */
function isLooseSign(text: string, at: number, end: number): boolean {
  if (text[at] !== "." && text[at] !== "-") return false;
  return at + 1 === end || !/\d/.test(text[at + 1]!);
}

/** A quote after a number: inches or minutes, as in `9"`. */
function belongsToNumber(text: string, start: number, end: number): boolean {
  return end - start > 1 && /[\d¼½¾⅓⅔⅛]["'”’]/.test(text.slice(end - 2, end));
}

/** The brackets of a text, found once for all spans of it. */
class Brackets {
  /** The index of the closing bracket, by the index of the opening one. */
  readonly #partners = new Map<number, number>();
  readonly #kinds: readonly [NestingDepth, NestingDepth];

  constructor(text: string) {
    const open = new Map([...openers].map((_, kind) => [kind, [] as number[]]));
    for (let at = 0; at < text.length; at++) {
      const opened = openers.indexOf(text[at]!);
      if (opened >= 0) open.get(opened)!.push(at);
      const from = open.get(closers.indexOf(text[at]!))?.pop();
      if (from !== undefined) this.#partners.set(from, at);
    }
    this.#kinds = [new NestingDepth(text, "(", ")"), new NestingDepth(text, "[", "]")];
  }

  /** Where the bracket that opens at `at` is closed before `end`, or -1. */
  partnerOf(at: number, end: number): number {
    const partner = this.#partners.get(at) ?? -1;
    return partner < end ? partner : -1;
  }

  /** True when round and square brackets between two places come in pairs. */
  areBalanced(start: number, end: number): boolean {
    return this.#kinds.every((kind) => kind.isBalanced(start, end));
  }
}

/** How deep each place of a text lies in brackets of one kind. */
class NestingDepth {
  readonly #depths: Int32Array;
  /** The next place that lies less deep than this one. */
  readonly #drops: Int32Array;

  constructor(text: string, open: string, close: string) {
    const depths = new Int32Array(text.length + 1);
    for (let at = 0; at < text.length; at++) {
      depths[at + 1] = depths[at]! + (text[at] === open ? 1 : text[at] === close ? -1 : 0);
    }
    const drops = new Int32Array(depths.length).fill(depths.length);
    const waiting: number[] = [];
    for (let at = 0; at < depths.length; at++) {
      while (waiting.length > 0 && depths[waiting.at(-1)!]! > depths[at]!) {
        drops[waiting.pop()!] = at;
      }
      waiting.push(at);
    }
    this.#depths = depths;
    this.#drops = drops;
  }

  isBalanced(start: number, end: number): boolean {
    return this.#depths[start] === this.#depths[end] && this.#drops[start]! > end;
  }
}

/** True when round and square brackets come in pairs. */
function isBalanced(text: string): boolean {
  let round = 0;
  let square = 0;
  for (const character of text) {
    if (character === "(") round++;
    else if (character === ")") round--;
    else if (character === "[") square++;
    else if (character === "]") square--;
    if (round < 0 || square < 0) return false;
  }
  return round === 0 && square === 0;
}

const compiledPatterns = new Map<string, RegExp>();

/**
 * The regular expression of a slot's pattern, anchored to the whole text, flags `iu`. Compiled
 * once a pattern.
 *
 * @throws SyntaxError when it is none.
 */
export function wholePattern(pattern: string): RegExp {
  let compiled = compiledPatterns.get(pattern);
  if (compiled === undefined) {
    // Compiled bare first: `a)(b` would turn valid inside the group.
    new RegExp(pattern, "iu");
    compiled = new RegExp(`^(?:${pattern})$`, "iu");
    if (compiledPatterns.size >= maxCompiledPatterns) compiledPatterns.clear();
    compiledPatterns.set(pattern, compiled);
  }
  return compiled;
}

const maxCompiledPatterns = 256;

/** True when `text` is what the slot says where nothing is copied; case and edges do not matter. */
export function isOrElse(slot: Pick<Slot, "orElse">, text: string): boolean {
  return foldCase(trimSpan(text)) === foldCase(trimSpan(slot.orElse));
}

/**
 * The words that a slot may copy from. Calling it for nothing but the error keeps a text that is
 * too long away from an engine.
 *
 * @throws SluiceError `FIELD_TYPE` when there are more than `limits.maxSlotSourceWords`, or more
 *   than `limits.maxSlotSourceChars` characters.
 */
export function sourceWords(slot: Slot): Word[] {
  const { length } = slot.source;
  if (length > limits.maxSlotSourceChars) {
    throw new SluiceError("FIELD_TYPE", `slot ${slot.name} would copy from ${length} characters`, {
      hint: `copy from at most ${limits.maxSlotSourceChars}: use forEach, or a shorter text`,
    });
  }
  const words = wordsOf(slot.source);
  if (words.length > limits.maxSlotSourceWords) {
    throw new SluiceError("FIELD_TYPE", `slot ${slot.name} would copy from ${words.length} words`, {
      hint: `copy from at most ${limits.maxSlotSourceWords} words: use forEach, or a shorter text`,
    });
  }
  return words;
}

/** The patterns of slots with the slots' names, for messages. */
export function patternsOf(slots: readonly Slot[]): string[] {
  return slots.flatMap(({ name, pattern }) => (pattern === undefined ? [] : `${name}: ${pattern}`));
}

/**
 * Every text that a slot may be filled with by copying: each distinct run of 1 to `maxWords`
 * consecutive words of `source`, trimmed by `trimSpan`, that matches `pattern`. In the order in
 * which they begin, shorter ones first. Left out are runs that cut a pair of brackets and the text
 * of `orElse`, which stands for "nothing copied".
 *
 * `slot.orElse` itself is always allowed besides. An engine that enforces a slotted line builds its
 * grammar from these texts; what it then writes is accepted by `parseSlottedLine`.
 *
 * @throws SluiceError `FIELD_TYPE` when the source has more than `limits.maxSlotSourceWords` words,
 *   `PATTERN_TOO_SLOW`.
 * @example
 * const slot = { name: "time", source: "Bake 5 min.", orElse: "none", maxWords: 2 };
 * candidateSpans({ ...slot, pattern: "\\d.*" });
 * // ["5", "5 min"]
 */
export function candidateSpans(slot: Slot): string[] {
  return withinPatternTime(patternsOf([slot]), () => spansOf(slot));
}

function spansOf(slot: Slot): string[] {
  const words = sourceWords(slot);
  const pattern = slot.pattern === undefined ? undefined : wholePattern(slot.pattern);
  const spans = new Set<string>();
  for (let first = 0; first < words.length; first++) {
    const end = Math.min(first + slot.maxWords, words.length);
    for (let last = first; last < end; last++) {
      const span = trimSpan(slot.source.slice(words[first]!.start, words[last]!.end));
      if (span === "" || spans.has(span) || !isBalanced(span)) continue;
      if (pattern !== undefined && !pattern.test(span)) continue;
      if (!isOrElse(slot, span)) spans.add(span);
    }
  }
  return [...spans];
}

/**
 * The run of consecutive words of `slot.source` that `copied` repeats, in the source's own
 * spelling, or undefined when the words do not stand there. Punctuation around words and white
 * space do not matter; equal letter case is preferred and not demanded. Neither `maxWords` nor
 * `pattern` is looked at.
 *
 * @throws SluiceError `FIELD_TYPE` when the source has more than `limits.maxSlotSourceWords` words.
 */
export function findSpan(slot: Slot, copied: string): string | undefined {
  return locateSpan(slot, copied)?.text;
}

/** A span of a source: its text, and where it stands. */
export interface LocatedSpan {
  /** `source.slice(start, end)`, with single spaces for white space. */
  text: string;
  /** UTF-16 offsets. */
  start: number;
  end: number;
}

/**
 * The same as `findSpan`, with the place in the source. The first of several places counts.
 *
 * @throws SluiceError `FIELD_TYPE` when the source has more than `limits.maxSlotSourceWords` words.
 */
export function locateSpan(slot: Slot, copied: string): LocatedSpan | undefined {
  const wanted = wordsOf(trimSpan(copied)).map((word) => coreOf(word.text));
  if (wanted.length === 0) return undefined;
  const words = sourceWords(slot);
  const cores = words.map((word) => coreOf(word.text));
  const spanAt = (first: number) =>
    trimmedIn(slot.source, words[first]!.start, words[first + wanted.length - 1]!.end);
  const exact = placesOf(wanted, cores).map(spanAt);
  const trimmed = trimSpan(copied);
  if (exact.length > 0) return exact.find(({ text }) => text === trimmed) ?? exact[0];
  return placesOf(wanted.map(foldCase), cores.map(foldCase)).map(spanAt)[0];
}

/** What `trimSpan` leaves of a part of the source, and where that begins and ends. */
function trimmedIn(source: string, start: number, end: number): LocatedSpan {
  const part = source.slice(start, end);
  const within = boundsWithin(part);
  const text = part.slice(within.start, within.end).replace(/\s+/gu, " ");
  return { text, start: start + within.start, end: start + within.end };
}

function placesOf(wanted: readonly string[], words: readonly string[]): number[] {
  const places: number[] = [];
  for (let first = 0; first + wanted.length <= words.length; first++) {
    if (wanted.every((word, offset) => words[first + offset] === word)) places.push(first);
  }
  return places;
}

/** A word without any mark around it: nothing, of one that is marks alone. */
function coreOf(word: string): string {
  let from = 0;
  let to = word.length;
  while (from < to && (leadingMarks.has(word[from]!) || isLooseSign(word, from, to))) from++;
  while (to > from && trailingMarks.has(word[to - 1]!)) to--;
  return word.slice(from, to);
}

/** For comparing: one letter case, and the plain forms of quotes and dashes. */
function foldCase(text: string): string {
  return text.toLowerCase().replace(/[‘’]/g, "'").replace(/[“”]/g, '"').replace(/[‐‑–]/g, "-");
}
