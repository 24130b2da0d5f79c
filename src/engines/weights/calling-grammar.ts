import {
  characters,
  choice,
  eitherOf,
  type Grammar,
  type GrammarNode,
  repeat,
  rule,
  sequence,
  text,
} from "../../foundation/grammar.ts";
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

const nothing = sequence();

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
  const further = repeat(another, 0);
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
  /** How much of `bareText` it consists of; undefined once it differs. */
  bare: number | undefined;
}

/** A rule for each place, as Aho and Corasick find many texts at once. */
function freeText({ exits, isBareCall, ends }: FreeText): Grammar {
  const texts = [...exits.keys()].filter((each) => each !== "");
  const alphabet = new Set([...texts, isBareCall ? bareText + blanks : ""].join(""));
  const away: Place = { seen: "", bare: undefined };
  const rules: Record<string, GrammarNode> = {};
  const visit = (place: Place): GrammarNode => {
    const name = nameOf(place);
    if (name in rules) return rule(name);
    // Filled in below: places lead to one another.
    rules[name] = nothing;
    const items: GrammarNode[] = [...ends];
    const listed: number[] = [];
    for (const character of alphabet) {
      const bare = bareAfter(place.bare, character);
      const seen = place.seen + character;
      const exit = texts.find((each) => seen.endsWith(each));
      const next: Place = { seen: begun(seen, texts), bare };
      if (exit === undefined && nameOf(next) === nameOf(away)) continue;
      listed.push(character.codePointAt(0)!);
      if (bare === bareText.length) continue;
      const then = exit === undefined ? visit(next) : exits.get(exit)!;
      items.push(sequence(text(character), then));
    }
    const other = characters(rangesBeside(listed));
    rules[name] = choice([...items, sequence(other, visit(away))]);
    return rule(name);
  };
  return { root: visit({ seen: "", bare: isBareCall ? 0 : undefined }), rules };
}

function nameOf({ seen, bare }: Place): string {
  return `text ${seen} ${bare ?? ""}`;
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

/** All characters except these. */
function rangesBeside(codes: readonly number[]): [number, number][] {
  const ranges: [number, number][] = [];
  let from = 0;
  // Surrogates are left out: they are halves of characters.
  for (const code of [...codes, 0x110000].sort((a, b) => a - b)) {
    if (code > from) ranges.push([from, code - 1]);
    from = code + 1;
  }
  return ranges.flatMap(([first, last]): [number, number][] =>
    first < 0xd800 && last > 0xdfff
      ? [
          [first, 0xd7ff],
          [0xe000, last],
        ]
      : [[first, last]],
  );
}
