import type { Slot, SlottedLine } from "../foundation/inference.ts";
import {
  findSpan,
  isOrElse,
  patternsOf,
  trimSpan,
  wholePattern,
  wordsOf,
} from "../foundation/spans.ts";
import { clipped } from "../foundation/suggest.ts";
import { withinPatternTime } from "../foundation/time-limit.ts";
import { parseLineTemplate } from "./line-template.ts";

/** Characters to examine at most while an answer is split into its slots. */
const maxCutChars = 16 * 1024 * 1024;

export { candidateSpans } from "../foundation/spans.ts";

/** The values of a slotted answer: the copied text of each slot; null if nothing was copied. */
export type SlotValues = Record<string, string | null>;

/** A parsed slotted answer: its values, or what is wrong with it, in words for the model. */
export type ParsedLine = { ok: true; values: SlotValues } | { ok: false; problem: string };

/** Longest part of an answer or of a source in a problem's text. */
const maxShownLength = 300;

/**
 * Parses a model's text by the requested line. Other lines may surround it; letter case and white
 * space do not matter. Each slot must hold `orElse`, or at most `maxWords` consecutive words of its
 * source that match its pattern. The copied text is returned in the source's own spelling.
 *
 * @throws SluiceError `FIELD_TYPE` if a source is longer than `limits.maxSlotSourceWords`,
 *   `PATTERN_TOO_SLOW`.
 * @example
 * const slot = { name: "time", source: "Bake 5 min.", orElse: "none", maxWords: 4 };
 * parseSlottedLine({ line: "time={time}", slots: [slot] }, "Time=5 MIN");
 * // { ok: true, values: { time: "5 min" } }
 */
export function parseSlottedLine(asked: SlottedLine, text: string): ParsedLine {
  return withinPatternTime(patternsOf(asked.slots), () => parseLine(asked, text));
}

function parseLine(asked: SlottedLine, text: string): ParsedLine {
  const literals = parseLineTemplate(asked.line).texts.map(literalPattern);
  const lines = asked.line.includes("\n") ? [text] : text.split("\n");
  let problem: string | undefined;
  const longest = longestLine(asked);
  const effort = { chars: maxCutChars };
  for (const line of lines) {
    const cleaned = cleanLine(line);
    if (cleaned.length > longest) continue;
    const parsed = new LineReader(asked.slots, literals, cleaned, effort).read();
    if (parsed?.ok) return parsed;
    problem ??= parsed?.problem;
  }
  const form = asked.line.replace(/\{\{|\}\}/g, (brace) => brace[0]!);
  const shown = clipped(text.trim(), maxShownLength);
  problem ??= `the answer must be one line of the form "${form}", it is "${shown}"`;
  return { ok: false, problem };
}

/** No valid answer is longer: every slot holds a part of its source, or `orElse`. */
function longestLine({ line, slots }: SlottedLine): number {
  const slack = 100;
  return slots.reduce(
    (length, { source, orElse }) => length + source.length + orElse.length,
    line.length * 2 + slack,
  );
}

/** The line without outer white space, quotes and code marks. */
function cleanLine(line: string): string {
  const text = line.replace(/\s+/gu, " ").trim();
  const marks = /^["'`*]*/.exec(text)![0];
  let count = Math.min(marks.length, maxQuoteMarks, Math.floor(text.length / 2));
  while (!text.endsWith(marks.slice(0, count))) count--;
  return count === 0 ? text : text.slice(count, -count).trim();
}

/** Most characters before an answer that are taken for quotes. */
const maxQuoteMarks = 32;

/** A regular expression for fixed text; white space and letter case may differ. */
function literalPattern(literal: string): string {
  const trimmed = literal.trim();
  if (trimmed === "") return literal === "" ? "" : "\\s+";
  const hasMarks = /[^\p{L}\p{N}\s]/u.test(literal);
  return literal
    .replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")
    .replace(/\s+/gu, hasMarks ? "\\s*" : "\\s+")
    .replace(/[=:]/g, "\\s*$&\\s*");
}

/** Finds a split of one line into slot texts in which every slot is valid. */
class LineReader {
  readonly #slots: readonly Slot[];
  readonly #text: string;
  readonly #literals: readonly RegExp[];
  /** Pairs of slot and position from which no valid split exists. */
  readonly #dead = new Set<string>();
  /** Characters that may still be examined; all lines of an answer share it. */
  readonly #effort: { chars: number };
  #problem: { slot: number; text: string } | undefined;

  constructor(
    slots: readonly Slot[],
    literals: readonly string[],
    text: string,
    effort: { chars: number },
  ) {
    this.#slots = slots;
    this.#effort = effort;
    this.#text = text;
    this.#literals = literals.map((literal, place) => {
      const isLast = place === literals.length - 1;
      return new RegExp(place === 0 ? `^${literal}` : isLast ? `${literal}$` : literal, "giu");
    });
  }

  /** Undefined if the line does not have the form at all. */
  read(): ParsedLine | undefined {
    const opening = this.#literals[0]!.exec(this.#text);
    if (opening === null) return undefined;
    const values = this.#readFrom(0, opening[0].length);
    if (values !== undefined) {
      const entries = this.#slots.map((slot, place) => [slot.name, values[place]!] as const);
      return { ok: true, values: Object.fromEntries(entries) };
    }
    return this.#problem && { ok: false, problem: this.#problem.text };
  }

  #readFrom(place: number, start: number): (string | null)[] | undefined {
    const slot = this.#slots[place];
    if (slot === undefined) return [];
    const state = `${place}:${start}`;
    if (this.#dead.has(state)) return undefined;
    for (const [literal, end] of this.#literalsAfter(place + 1, start)) {
      const text = this.#text.slice(start, end);
      this.#effort.chars -= text.length + slot.source.length;
      if (this.#effort.chars < 0) return undefined;
      const read = readSlot(slot, text);
      if (typeof read === "object") {
        const rest = this.#readFrom(place + 1, end + literal.length);
        if (rest !== undefined) return [read.value, ...rest];
      } else if (this.#problem === undefined || this.#problem.slot < place) {
        this.#problem = { slot: place, text: read };
      }
      // A text that is too long only grows; this limits the work on a text full of commas.
      if (wordCount(text) > slot.maxWords && !isOrElse(slot, text)) break;
    }
    this.#dead.add(state);
    return undefined;
  }

  /** The places where the fixed text after a slot occurs: the text found and its offset. */
  *#literalsAfter(place: number, from: number): Generator<[string, number]> {
    const pattern = this.#literals[place]!;
    for (let at = from; at <= this.#text.length; ) {
      pattern.lastIndex = at;
      const found = pattern.exec(this.#text);
      if (found === null) return;
      yield [found[0], found.index];
      at = found.index + 1;
    }
  }
}

/** The value of a slot, or what is wrong with its text. */
function readSlot(slot: Slot, text: string): { value: string | null } | string {
  const { name, orElse, maxWords, pattern } = slot;
  if (isOrElse(slot, text)) return { value: null };
  const shown = `${name}="${clipped(text.trim(), maxShownLength)}"`;
  const otherwise = `write "${orElse}" where there is nothing to copy`;
  if (text.trim() === "") return `${name} is empty; ${otherwise}`;
  const words = wordCount(text);
  if (words > maxWords) return `${shown} has ${words} words, at most ${maxWords} are allowed`;
  const span = findSpan(slot, text);
  if (span === undefined || span === "") {
    const source = clipped(slot.source.replace(/\s+/gu, " ").trim(), maxShownLength);
    return `${shown} is not copied word by word from "${source}"; ${otherwise}`;
  }
  if (pattern !== undefined && !wholePattern(pattern).test(span)) {
    return `${shown} does not have the form ${pattern}; ${otherwise}`;
  }
  return { value: span };
}

function wordCount(text: string): number {
  return wordsOf(trimSpan(text)).length;
}
