import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import type { Grammar, GrammarNode } from "../../../src/foundation/grammar.ts";
import { compileStructuredForm } from "../../../src/prompt/structure/structured-form.ts";

const text = (value: string): GrammarNode => ({ kind: "text", text: value });
const sequence = (...items: GrammarNode[]): GrammarNode => ({ kind: "sequence", items });
const choice = (...items: GrammarNode[]): GrammarNode => ({ kind: "choice", items });
const repeat = (item: GrammarNode, min: number, max?: number): GrammarNode =>
  max === undefined ? { kind: "repeat", item, min } : { kind: "repeat", item, min, max };
const rule = (name: string): GrammarNode => ({ kind: "rule", name });
const digits: GrammarNode = { kind: "characters", ranges: [[0x30, 0x39]] };

const automatonOf = (root: GrammarNode, rules: Grammar["rules"] = {}) =>
  new GrammarAutomaton({ root, rules });

function takes(automaton: GrammarAutomaton, value: string): boolean {
  return automaton.stepAll(automaton.start, Buffer.from(value))?.isEnd ?? false;
}

describe("GrammarAutomaton", () => {
  it.each<[string, GrammarNode, string[], string[]]>([
    ["a text", text("héllo"), ["héllo"], ["h", "hello", "héllo!", ""]],
    ["nothing", sequence(), [""], ["a"]],
    ["a choice of texts", choice(text("no"), text("none"), text("")), ["no", "none", ""], ["non"]],
    ["a sequence", sequence(text("a"), choice(text("b"), digits)), ["ab", "a7"], ["a", "abb"]],
    ["a repetition", repeat(digits, 2, 3), ["12", "123"], ["1", "1234", ""]],
    ["one without a bound", repeat(text("ab"), 1), ["ab", "ababab"], ["", "aba"]],
    ["one of what may be empty", repeat(choice(text("a"), text("")), 0), ["", "aaa"], ["b"]],
    ["characters", { kind: "characters", ranges: [[0x20, 0x10ffff]] }, ["é", "🍲"], ["\n", "ab"]],
    ["no choice at all", choice(), [], ["", "a"]],
  ])("takes %s and nothing else", (_name, root, taken, refused) => {
    const automaton = automatonOf(root);
    for (const value of taken) expect(takes(automaton, value), value).toBe(true);
    for (const value of refused) expect(takes(automaton, value), value).toBe(false);
  });

  it("goes on from one of thousands of members that may be left out to any other", () => {
    const properties = Object.fromEntries(
      Array.from({ length: 2000 }, (_, at) => [`p${at}`, { type: "boolean" }]),
    );
    const { ask } = compileStructuredForm({ type: "object", properties }, "schema");
    const automaton = new GrammarAutomaton(ask([]).structure!.grammar!);
    expect(takes(automaton, '{"p0": true, "p1999": false}')).toBe(true);
    expect(takes(automaton, "{}")).toBe(true);
    expect(takes(automaton, '{"p1999": true, "p0": false}')).toBe(false);
  });

  it("follows rules that refer to themselves", () => {
    const list = sequence(text("["), repeat(rule("list"), 0), text("]"));
    const automaton = automatonOf(rule("list"), { list });
    expect(["[]", "[[]]", "[[][[]]]"].every((value) => takes(automaton, value))).toBe(true);
    expect(["[", "[[]", "]", "[]]"].some((value) => takes(automaton, value))).toBe(false);
  });

  it("takes long texts and long sequences, and knows how far their ends are", () => {
    const long = "x".repeat(30_000);
    const many = sequence(...Array.from(long, () => text("x")));
    for (const root of [text(long), choice(text(`${long}y`), text(long)), many]) {
      const automaton = automatonOf(root);
      const state = automaton.stepAll(automaton.start, Buffer.from("xxx"))!;
      expect([automaton.start.leastBytes, state.leastBytes]).toEqual([30_000, 29_997]);
    }
  });

  it("keeps few states where many texts pass through the same places", () => {
    const automaton = automatonOf(repeat({ kind: "characters", ranges: [[0x20, 0x10ffff]] }, 0));
    for (let at = 0; at < 100; at++) takes(automaton, `text ${at} ½ 🍲`.repeat(20));
    expect(automaton.size).toBeLessThan(20);
  });

  describe("closing", () => {
    const string = sequence(text('"'), repeat(digits, 0), text('"'));
    const pair = sequence(text('{"a": '), string, text(', "b": '), string, text("}"));

    it("brings a text to its nearest end from wherever it stands", () => {
      const automaton = automatonOf(pair);
      const begun = '{"a": "12';
      const state = automaton.stepAll(automaton.start, Buffer.from(begun))!;
      const closing = Buffer.from(automaton.closing(state)).toString();
      expect(begun + closing).toBe('{"a": "12", "b": ""}');
      expect(state.leastBytes).toBe(closing.length);
    });

    it("knows the shortest way through rules", () => {
      const nested = choice(
        sequence(text("("), rule("nested"), text(")")),
        text("leaf"),
        text("x"),
      );
      const automaton = automatonOf(rule("nested"), { nested });
      expect(automaton.start.leastBytes).toBe(1);
      const state = automaton.stepAll(automaton.start, Buffer.from("((le"))!;
      expect(Buffer.from(automaton.closing(state)).toString()).toBe("af))");
    });

    it("always ends a text, in as many bytes as it said", () =>
      fc.assert(
        fc.property(fc.string({ maxLength: 12 }), fc.nat(12), (value, cut) => {
          const root = repeat(choice(text(value), sequence(digits, text("é")), digits), 1, 4);
          const automaton = automatonOf(root);
          const begun = Buffer.from(`${value}7`).subarray(0, cut);
          const state = automaton.stepAll(automaton.start, begun);
          if (state === undefined) return;
          const closing = automaton.closing(state);
          expect(closing).toHaveLength(state.leastBytes);
          expect(automaton.stepAll(state, closing)!.isEnd).toBe(true);
        }),
      ));
  });
});
