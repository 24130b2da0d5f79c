import { SluiceError } from "./errors.ts";
import type { Slot } from "./inference.ts";
import { limits } from "./limits.ts";

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

/** The words of a text: runs without white space; an em dash parts words too. */
export function wordsOf(text: string): Word[] {
  return Array.from(text.matchAll(/[^\s—]+/gu), (match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length,
  }));
}

/**
 * A run of words without the punctuation around it, white space made single spaces. A bracket
 * stays where its partner stands inside, so `(190 degrees C).` becomes `190 degrees C` and
 * `375 degrees F (190 degrees C).` keeps its brackets. Marks that belong to a number stay: `.5`,
 * `-18`, `9"`.
 *
 * @example
 * trimSpan("medium heat,"); // "medium heat"
 */
export function trimSpan(span: string): string {
  let text = span.replace(/\s+/gu, " ").trim();
  for (;;) {
    const shorter = trimOnce(text);
    if (shorter === text) return text;
    text = shorter.trim();
  }
}

function trimOnce(text: string): string {
  const first = text[0];
  const last = text.at(-1);
  if (first === undefined || last === undefined) return text;
  const opensWith = openers.indexOf(first);
  if (opensWith >= 0 && partnerOf(text) === text.length - 1) return text.slice(1, -1);
  if (leadingMarks.has(first) && (opensWith < 0 || partnerOf(text) < 0)) return text.slice(1);
  if (/^[.-](?!\d)/.test(text)) return text.slice(1);
  if (!trailingMarks.has(last)) return text;
  if (/[\d¼½¾⅓⅔⅛]["'”’]$/.test(text)) return text;
  if (closers.includes(last) && isBalanced(text)) return text;
  return text.slice(0, -1);
}

/** Where the bracket that `text` begins with is closed, or -1. */
function partnerOf(text: string): number {
  const open = text[0]!;
  const close = closers[openers.indexOf(open)]!;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === open) depth++;
    else if (text[at] === close && --depth === 0) return at;
  }
  return -1;
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
 * @throws SluiceError `FIELD_TYPE` when there are more than `limits.maxSlotSourceWords`.
 */
export function sourceWords(slot: Slot): Word[] {
  const words = wordsOf(slot.source);
  if (words.length > limits.maxSlotSourceWords) {
    throw new SluiceError("FIELD_TYPE", `slot ${slot.name} would copy from ${words.length} words`, {
      hint: `copy from at most ${limits.maxSlotSourceWords} words: use forEach, or a shorter text`,
    });
  }
  return words;
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
 * @throws SluiceError `FIELD_TYPE` when the source has more than `limits.maxSlotSourceWords` words.
 * @example
 * const slot = { name: "time", source: "Bake 5 min.", orElse: "none", maxWords: 2 };
 * candidateSpans({ ...slot, pattern: "\\d.*" });
 * // ["5", "5 min"]
 */
export function candidateSpans(slot: Slot): string[] {
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
 * The same as `findSpan`, with the place in the source. Of several places the first.
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
  if (exact.length > 0) return exact.find(({ text }) => text === trimSpan(copied)) ?? exact[0];
  return placesOf(wanted.map(foldCase), cores.map(foldCase)).map(spanAt)[0];
}

/** What `trimSpan` leaves of a part of the source, and where that begins and ends. */
function trimmedIn(source: string, start: number, end: number): LocatedSpan {
  const part = source.slice(start, end);
  const text = trimSpan(part);
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const found = new RegExp(escaped.replaceAll(" ", "\\s+")).exec(part)!;
  const from = start + found.index;
  return { text, start: from, end: from + found[0].length };
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
  while (from < to && (leadingMarks.has(word[from]!) || /^[.-](?!\d)/.test(word.slice(from))))
    from++;
  while (to > from && trailingMarks.has(word[to - 1]!)) to--;
  return word.slice(from, to);
}

/** For comparing: one letter case, and the plain forms of quotes and dashes. */
function foldCase(text: string): string {
  return text.toLowerCase().replace(/[‘’]/g, "'").replace(/[“”]/g, '"').replace(/[‐‑–]/g, "-");
}
