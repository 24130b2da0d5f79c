import { type GrammarNode, oneOf, repeat, sequence } from "../../foundation/grammar.ts";
import { limits } from "../../foundation/limits.ts";
import {
  anyCharacter,
  type CharacterSet,
  characterSet,
  complement,
  jsonCharacter,
} from "./character-set.ts";

/**
 * The grammar of the texts that a regular expression matches, as they are written in JSON strings.
 * Supported are characters, `.`, classes, `\d \w \s` and their opposites, groups, alternatives,
 * quantifiers, `^` at the beginning and `$` at the end. At an end without an anchor, any text may
 * stand.
 *
 * @returns undefined if a grammar cannot express it: look-around, back references, `\b`, `\p`,
 *   anchors elsewhere, and more than `limits.maxPatternDepth` nested groups.
 * @example
 * patternGrammar("^\\d{4}-\\d\\d$");
 */
export function patternGrammar(pattern: string): GrammarNode | undefined {
  try {
    return new PatternReader(pattern).read();
  } catch (error) {
    if (error === beyondGrammar) return undefined;
    throw error;
  }
}

/** Thrown for a pattern that a grammar cannot express; caught above. */
const beyondGrammar = new Error("a grammar cannot say this");

const anything = repeat(jsonCharacter(anyCharacter), 0);

const code = (character: string) => character.codePointAt(0)!;
const range = (from: string, to: string) => [code(from), code(to)] as const;

const digits: CharacterSet = [range("0", "9")];
const wordCharacters = characterSet([...digits, range("A", "Z"), range("a", "z"), range("_", "_")]);
const blanks = characterSet([
  ...[range("\t", "\r"), range(" ", " "), range("\u00a0", "\u00a0"), range("\u1680", "\u1680")],
  ...[range("\u2000", "\u200a"), range("\u2028", "\u2029"), range("\u202f", "\u202f")],
  ...[range("\u205f", "\u205f"), range("\u3000", "\u3000"), range("\ufeff", "\ufeff")],
]);
const lineEnds = characterSet([
  ...[range("\n", "\n"), range("\r", "\r"), range("\u2028", "\u2029")],
]);

const classes: Readonly<Record<string, CharacterSet>> = {
  d: digits,
  D: complement(digits),
  w: wordCharacters,
  W: complement(wordCharacters),
  s: blanks,
  S: complement(blanks),
};

const controls: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", f: "\f", v: "\v" };

/** Reads a valid pattern with flag `u` from left to right. */
class PatternReader {
  readonly #characters: readonly string[];
  #at = 0;
  #depth = 0;

  constructor(pattern: string) {
    this.#characters = [...pattern];
  }

  read(): GrammarNode {
    return this.#alternatives();
  }

  #alternatives(): GrammarNode {
    const items = [this.#sequence()];
    while (this.#take("|")) items.push(this.#sequence());
    return oneOf(items);
  }

  #sequence(): GrammarNode {
    const isOuter = this.#depth === 0;
    const hasStart = isOuter && this.#take("^");
    const items: GrammarNode[] = isOuter && !hasStart ? [anything] : [];
    while (this.#next !== undefined && this.#next !== "|" && this.#next !== ")") {
      if (isOuter && this.#take("$")) {
        if (this.#next === undefined || this.#next === "|") return sequence(...items);
        throw beyondGrammar;
      }
      items.push(this.#quantified(this.#atom()));
    }
    if (isOuter) items.push(anything);
    return items.length === 1 ? items[0]! : sequence(...items);
  }

  #atom(): GrammarNode {
    const character = this.#advance();
    switch (character) {
      case "(":
        return this.#group();
      case "[":
        return written(this.#class());
      case ".":
        return written(complement(lineEnds));
      case "\\":
        return written(this.#escape());
      case "^":
      case "$":
        throw beyondGrammar;
      default:
        return written([range(character, character)]);
    }
  }

  #group(): GrammarNode {
    if (this.#take("?")) {
      if (this.#take("<")) {
        if (this.#next === "=" || this.#next === "!") throw beyondGrammar;
        while (this.#advance() !== ">");
      } else if (!this.#take(":")) {
        throw beyondGrammar;
      }
    }
    if (++this.#depth > limits.maxPatternDepth) throw beyondGrammar;
    const node = this.#alternatives();
    this.#depth--;
    this.#advance();
    return node;
  }

  #quantified(item: GrammarNode): GrammarNode {
    let min = 0;
    let max: number | undefined;
    if (this.#take("?")) max = 1;
    else if (this.#take("+")) min = 1;
    else if (this.#take("{")) {
      min = this.#number();
      max = this.#take(",") ? (this.#next === "}" ? undefined : this.#number()) : min;
      this.#advance();
    } else if (!this.#take("*")) return item;
    // A lazy quantifier matches the same texts as a greedy one.
    this.#take("?");
    return repeat(item, min, max);
  }

  #number(): number {
    let text = "";
    while (/\d/.test(this.#next ?? "")) text += this.#advance();
    return Number(text);
  }

  /** The set for the character after a backslash. */
  #escape(): CharacterSet {
    const character = this.#advance();
    const named = classes[character];
    if (named !== undefined) return named;
    const control = controls[character];
    if (control !== undefined) return [range(control, control)];
    if (character === "x") return this.#hexadecimal(2);
    if (character === "u" && this.#take("{")) {
      let text = "";
      while (this.#next !== "}") text += this.#advance();
      this.#advance();
      return one(Number.parseInt(text, 16));
    }
    if (character === "u") return this.#hexadecimal(4);
    if (/[A-Za-z0-9]/.test(character)) throw beyondGrammar;
    return [range(character, character)];
  }

  #hexadecimal(length: number): CharacterSet {
    let text = "";
    for (let place = 0; place < length; place++) text += this.#advance();
    const value = Number.parseInt(text, 16);
    // Half of a surrogate pair; the other half follows.
    if (value >= 0xd800 && value <= 0xdfff) throw beyondGrammar;
    return one(value);
  }

  #class(): CharacterSet {
    const isNegated = this.#take("^");
    const ranges: (readonly [number, number])[] = [];
    while (!this.#take("]")) {
      const from = this.#classMember();
      const isRange = this.#next === "-" && this.#characters[this.#at + 1] !== "]";
      if (!isRange) {
        ranges.push(...from);
        continue;
      }
      this.#advance();
      ranges.push([from[0]![0], this.#classMember()[0]![1]]);
    }
    const set = characterSet(ranges);
    return isNegated ? complement(set) : set;
  }

  #classMember(): CharacterSet {
    const character = this.#advance();
    if (character !== "\\") return [range(character, character)];
    return this.#take("b") ? one(8) : this.#escape();
  }

  get #next(): string | undefined {
    return this.#characters[this.#at];
  }

  #advance(): string {
    const character = this.#characters[this.#at++];
    if (character === undefined) throw beyondGrammar;
    return character;
  }

  #take(character: string): boolean {
    if (this.#next !== character) return false;
    this.#at++;
    return true;
  }
}

function one(codePoint: number): CharacterSet {
  return [[codePoint, codePoint]];
}

function written(set: CharacterSet): GrammarNode {
  const node = jsonCharacter(set);
  if (node.kind === "choice" && node.items.length === 0) throw beyondGrammar;
  return node;
}
