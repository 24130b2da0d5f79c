import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lineGrammar } from "../../src/engines/line-grammar.ts";
import type { GrammarNode } from "../../src/foundation/grammar.ts";
import { candidateSpans } from "../../src/foundation/spans.ts";

/** All texts of a grammar without rules and endless repetitions. */
function textsOf(node: GrammarNode): string[] {
  switch (node.kind) {
    case "text":
      return [node.text];
    case "sequence":
      return node.items.reduce<string[]>(
        (texts, item) => texts.flatMap((text) => textsOf(item).map((end) => text + end)),
        [""],
      );
    case "choice":
      return node.items.flatMap(textsOf);
    case "repeat":
      return ["", ...textsOf(node.item)];
    default:
      throw new Error(node.kind);
  }
}

describe("lineGrammar", () => {
  it("has each span once, whatever the words, and nothing else", () => {
    const word = fc.oneof(fc.constantFrom("for", "fo", "5", "min", "🍞", "🍕"), fc.string());
    const sentence = fc.array(word, { maxLength: 12 }).map((words) => words.join(" "));
    const property = fc.property(sentence, fc.integer({ min: 1, max: 5 }), (source, maxWords) => {
      const slot = { name: "t", source, orElse: "none", maxWords };
      const { root } = lineGrammar({ line: "t={t};", slots: [slot] }, " ");
      const spans = new Set(["none", ...candidateSpans(slot)]);
      const lines = Array.from(spans, (span) => ` t=${span};`);
      expect(textsOf(root).toSorted()).toEqual(lines.toSorted());
    });
    fc.assert(property, { numRuns: 500 });
  });
});
