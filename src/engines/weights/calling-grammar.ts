import { eitherOf, type Grammar, type GrammarNode } from "../../foundation/grammar.ts";
import { callsGrammar, opensOf } from "./call-formats.ts";
import type { AskedCalls } from "./tool-calling.ts";

/** What a whole answer may be beside calls. */
export interface CallingGrammarOptions {
  /** The form of an answer that calls nothing. Default: free text. */
  structure?: Grammar | undefined;
  /** Texts that end free text. Default: none. */
  stop?: readonly string[];
  /** Whether free text goes on to the limit of tokens. Default: it may end anywhere. */
  ignoresEnds?: boolean;
}

const text = (value: string): GrammarNode => ({ kind: "text", text: value });
const sequence = (...items: GrammarNode[]): GrammarNode => ({ kind: "sequence", items });
const choice = (items: readonly GrammarNode[]): GrammarNode => ({ kind: "choice", items });
const rule = (name: string): GrammarNode => ({ kind: "rule", name });
const nothing: GrammarNode = sequence();

/**
 * The texts of a whole answer that may call tools, for a library that follows one grammar. Free
 * text goes on until the text that opens a call; from there on, only calls can be written.
 */
export function callingGrammar(asked: AskedCalls, options: CallingGrammarOptions = {}): Grammar {
  const { format, argumentGrammars, isForced, isParallel } = asked;
  const { open, close, space, several } = format;
  const one = callsGrammar(format, argumentGrammars, isParallel);
  const end = text(close === "" ? "" : space + close);
  const another = sequence(text(space + open), one.root, end);
  const further: GrammarNode = { kind: "repeat", item: another, min: 0 };
  const isSeveral = isParallel && several === "apart";
  const calls: Grammar = {
    root: rule("opened"),
    rules: { ...one.rules, opened: sequence(one.root, end, ...(isSeveral ? [further] : [])) },
  };
  const opened: Grammar = { ...calls, root: sequence(text(open), calls.root) };
  if (isForced) return opened;
  if (options.structure) return eitherOf(options.structure, opened);
  const free = freeText({
    exits: new Map([
      ...(options.stop ?? []).map((stop) => [stop, nothing] as const),
      ...opensOf(format).map((each) => [each, calls.root] as const),
    ]),
    isBareCall: open === "",
    ends: options.ignoresEnds === true ? [] : [nothing],
  });
  return {
    root: open === "" ? choice([opened.root, free.root]) : free.root,
    rules: { ...calls.rules, ...free.rules },
  };
}

/** The beginning of a call that is a whole answer; between these parts may be white space. */
const bareParts = ["{", '"name"', ":"];
const bareText = bareParts.join("");
const bareStarts = new Set(bareParts.map((_, at) => bareParts.slice(0, at).join("").length));
const blanks = " \t\n\r";

interface FreeText {
  /** What follows each of these texts. */
  exits: ReadonlyMap<string, GrammarNode>;
  /** Whether text must not begin like a bare call. */
  isBareCall: boolean;
  /** What may follow anywhere else. */
  ends: readonly GrammarNode[];
}

/** Where a free text is. */
interface Place {
  /** The end of the text, as far as one of the exits may have begun. */
  seen: string;
  /** How much of `bareText` it consists of; undefined if it is no bare call. */
  bare: number | undefined;
}

/** A rule for each place, as Aho and Corasick find many texts at once. */
function freeText({ exits, isBareCall, ends }: FreeText): Grammar {
  const texts = [...exits.keys()].filter((each) => each !== "");
  const alphabet = new Set([...texts, isBareCall ? bareText + blanks : ""].join(""));
  const characters = [...alphabet].map((each) => each.codePointAt(0)!).sort((a, b) => a - b);
  const other: GrammarNode = { kind: "characters", ranges: rangesBetween(characters) };
  const rules: Record<string, GrammarNode> = {};
  const visit = (place: Place): GrammarNode => {
    const name = `text ${place.seen} ${place.bare ?? ""}`;
    if (name in rules) return rule(name);
    // Filled in below: places lead to one another.
    rules[name] = nothing;
    const items = [...ends, sequence(other, visit({ seen: "", bare: undefined }))];
    for (const code of characters) {
      const character = String.fromCodePoint(code);
      const bare = bareAfter(place.bare, character);
      if (bare === bareText.length) continue;
      const seen = place.seen + character;
      const exit = texts.find((each) => seen.endsWith(each));
      const next = exit === undefined ? visit({ seen: begun(seen, texts), bare }) : exits.get(exit)!;
      items.push(sequence(text(character), next));
    }
    rules[name] = choice(items);
    return rule(name);
  };
  return { root: visit({ seen: "", bare: isBareCall ? 0 : undefined }), rules };
}

/** The longest end of a text with which one of the others begins. */
function begun(seen: string, texts: readonly string[]): string {
  const ends = [...seen].map((_, at, all) => all.slice(at).join(""));
  return ends.find((end) => texts.some((each) => each.startsWith(end))) ?? "";
}

function bareAfter(bare: number | undefined, character: string): number | undefined {
  if (bare === undefined) return undefined;
  if (bareText[bare] === character) return bare + 1;
  return bareStarts.has(bare) && blanks.includes(character) ? bare : undefined;
}

/** All code points except these, which are in order. */
function rangesBetween(codes: readonly number[]): [number, number][] {
  const starts = [0, ...codes.map((code) => code + 1)];
  const stops = [...codes.map((code) => code - 1), 0x10ffff];
  return starts.map((from, at): [number, number] => [from, stops[at]!]).filter(([a, b]) => a <= b);
}
