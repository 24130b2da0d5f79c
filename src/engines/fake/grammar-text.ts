import type { Grammar, GrammarNode } from "../../foundation/grammar.ts";
import { type Random, randomInteger } from "../../foundation/random.ts";

/** Nesting depth of rules after which the shortest way to the end is taken. */
const maxDepth = 6;
/** Most repetitions of an item beyond its minimum. */
const maxExtraRepeats = 4;

/**
 * A random text of the grammar. Repeats stay few and rules end, so that it is short.
 *
 * @throws RangeError if there is no text.
 * @example
 * grammarText({ root: { kind: "text", text: "yes" }, rules: {} }, seededRandom(1)); // "yes"
 */
export function grammarText(grammar: Grammar, random: Random): string {
  return new GrammarText(grammar, random).write();
}

class GrammarText {
  readonly #grammar: Grammar;
  readonly #random: Random;
  /** Nesting depth of the shortest text of each rule. */
  readonly #heights = new Map<string, number>();

  constructor(grammar: Grammar, random: Random) {
    this.#grammar = grammar;
    this.#random = random;
    this.#measureRules();
  }

  write(): string {
    return this.#text(this.#grammar.root, 0);
  }

  #text(node: GrammarNode, depth: number): string {
    switch (node.kind) {
      case "text":
        return node.text;
      case "sequence":
        return node.items.map((item) => this.#text(item, depth)).join("");
      case "choice":
        return this.#text(this.#chosen(node.items, depth), depth);
      case "repeat": {
        const { min, max = Number.POSITIVE_INFINITY } = node;
        const most = depth > maxDepth ? 0 : Math.min(max - min, maxExtraRepeats);
        const times = min + randomInteger(this.#random, most + 1);
        let text = "";
        for (let time = 0; time < times; time++) text += this.#text(node.item, depth);
        return text;
      }
      case "characters":
        return this.#character(node.ranges);
      case "rule":
        return this.#text(this.#grammar.rules[node.name]!, depth + 1);
    }
  }

  #chosen(items: readonly GrammarNode[], depth: number): GrammarNode {
    const ending = items.filter((item) => Number.isFinite(this.#heightOf(item)));
    if (ending.length === 0) throw new RangeError("the grammar has no text here");
    if (depth <= maxDepth) return ending[randomInteger(this.#random, ending.length)]!;
    const least = Math.min(...ending.map((item) => this.#heightOf(item)));
    return ending.find((item) => this.#heightOf(item) === least)!;
  }

  /** Mostly a letter, if the ranges have letters: text for people should look like words. */
  #character(ranges: readonly (readonly [from: number, to: number])[]): string {
    const letter = 0x61 + randomInteger(this.#random, 26);
    const hasLetter = ranges.some(([from, to]) => from <= letter && letter <= to);
    if (hasLetter && this.#random.next() < 0.9) return String.fromCodePoint(letter);
    const [from, to] = ranges[randomInteger(this.#random, ranges.length)]!;
    return String.fromCodePoint(from + randomInteger(this.#random, to - from + 1));
  }

  #measureRules(): void {
    const { rules } = this.#grammar;
    const names = Object.keys(rules);
    for (let hasChanged = true; hasChanged; ) {
      hasChanged = false;
      for (const name of names) {
        if (this.#heights.has(name) || !Number.isFinite(this.#heightOf(rules[name]!))) continue;
        this.#heights.set(name, this.#heightOf(rules[name]!) + 1);
        hasChanged = true;
      }
    }
  }

  #heightOf(node: GrammarNode): number {
    switch (node.kind) {
      case "text":
      case "characters":
        return 0;
      case "sequence":
        return node.items.reduce((most, item) => Math.max(most, this.#heightOf(item)), 0);
      case "choice":
        return node.items.reduce(
          (least, item) => Math.min(least, this.#heightOf(item)),
          Number.POSITIVE_INFINITY,
        );
      case "repeat":
        return node.min === 0 ? 0 : this.#heightOf(node.item);
      case "rule":
        return this.#heights.get(node.name) ?? Number.POSITIVE_INFINITY;
    }
  }
}
