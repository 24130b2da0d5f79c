import { describe, expect, it } from "vitest";
import {
  type Grammar,
  type GrammarNode,
  toGbnf,
  withOwnRules,
} from "../../src/foundation/grammar.ts";

const text = (value: string): GrammarNode => ({ kind: "text", text: value });
const printed = (root: GrammarNode, rules: Grammar["rules"] = {}) => toGbnf({ root, rules });

describe("toGbnf", () => {
  it.each<[string, GrammarNode, string]>([
    ["a text", text("yes"), '"yes"'],
    ["a text with quotes and line ends", text('"a\\b"\n'), '"\\u0022a\\u005cb\\u0022\\u000a"'],
    ["a text beyond ASCII", text("é€🥛"), '"\\u00e9\\u20ac\\U0001f95b"'],
    ["a hex digit after one beyond ASCII", text("25°F, é"), '("25\\u00b0" "F, \\u00e9")'],
    [
      "hex digits before other characters",
      {
        kind: "characters",
        ranges: [
          [0x20, 0x20],
          [0x30, 0x39],
          [0xb0, 0xb0],
          [0x61, 0x66],
        ],
      },
      "[0-9a-f \\u00b0]",
    ],
    ["nothing", { kind: "sequence", items: [] }, '""'],
    ["a sequence", { kind: "sequence", items: [text("a"), text("b")] }, '("a" "b")'],
    ["a choice", { kind: "choice", items: [text("a"), text("b")] }, '("a" | "b")'],
    ["a repetition", { kind: "repeat", item: text("a"), min: 1, max: 3 }, '"a"{1,3}'],
    ["one without a bound", { kind: "repeat", item: text("a"), min: 0 }, '"a"{0,}'],
    [
      "a repetition of repetitions",
      { kind: "repeat", item: { kind: "repeat", item: text("a"), min: 0, max: 1 }, min: 2 },
      '("a"{0,1}){2,}',
    ],
    [
      "characters",
      {
        kind: "characters",
        ranges: [
          [0x5d, 0x5d],
          [0x61, 0x7a],
          [0xe000, 0x10ffff],
        ],
      },
      "[a-z\\u005d\\ue000-\\U0010ffff]",
    ],
  ])("prints %s", (_name, root, expected) => {
    expect(printed(root)).toBe(`root ::= ${expected}\n`);
  });

  it("gives rules names that the notation allows", () => {
    const rule = (name: string): GrammarNode => ({ kind: "rule", name });
    const rules = {
      "#/$defs/a b": { kind: "choice", items: [text("."), rule("ü")] },
      ü: text("ü"),
    };
    expect(printed(rule("#/$defs/a b"), rules as Grammar["rules"])).toBe(
      'root ::= rule-1\nrule-1 ::= ("." | rule-2)\nrule-2 ::= "\\u00fc"\n',
    );
  });
});

describe("withOwnRules", () => {
  it("changes the names of rules and nothing else", () => {
    const rule = (name: string): GrammarNode => ({ kind: "rule", name });
    const grammar: Grammar = {
      root: { kind: "sequence", items: [rule("a"), { kind: "choice", items: [text("a")] }] },
      rules: { a: { kind: "repeat", item: rule("b"), min: 1 }, b: text("x") },
    };
    expect(withOwnRules(grammar, "own")).toEqual({
      root: { kind: "sequence", items: [rule("own a"), { kind: "choice", items: [text("a")] }] },
      rules: { "own a": { kind: "repeat", item: rule("own b"), min: 1 }, "own b": text("x") },
    });
    expect(toGbnf(withOwnRules(grammar, "own"))).toBe(toGbnf(grammar));
  });
});
