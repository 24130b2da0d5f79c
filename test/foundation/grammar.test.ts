import fc from "fast-check";
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

/** How long the texts of a printed grammar are whose only text is `a`. */
function lengthsOf(gbnf: string): Set<number> {
  const rules = new Map(
    gbnf
      .trim()
      .split("\n")
      .map((line) => line.split(" ::= ") as [string, string]),
  );
  const part = /("a"|block-\d+)(?:\{(\d+),(\d+)\})?/g;
  const lengths = (name: string): Set<number> => {
    if (name === '"a"') return new Set([1]);
    let all = new Set([0]);
    for (const [, item, min = "1", max = "1"] of rules.get(name)!.matchAll(part)) {
      const each = lengths(item!);
      let sums = all;
      all = new Set(min === "0" ? all : []);
      for (let count = 1; count <= Number(max); count++) {
        sums = new Set([...sums].flatMap((sum) => [...each].map((one) => sum + one)));
        if (count >= Number(min)) for (const sum of sums) all.add(sum);
      }
    }
    return all;
  };
  return lengths("root");
}

describe("a long repetition", () => {
  const counts = fc.integer({ min: 0, max: 700 });

  it("is printed as short ones, with the same texts", () => {
    fc.assert(
      fc.property(counts, counts, (min, more) => {
        const gbnf = printed({ kind: "repeat", item: text("a"), min, max: min + more + 1 });
        const times = [...gbnf.matchAll(/,(\d+)\}/g)].map(([, max]) => Number(max));
        expect(Math.max(...times)).toBeLessThanOrEqual(8);
        const lengths = [...lengthsOf(gbnf)].sort((a, b) => a - b);
        expect(lengths).toEqual(Array.from({ length: more + 2 }, (_, at) => min + at));
      }),
      { numRuns: 50 },
    );
  });

  it("without an end has its beginning in blocks", () => {
    expect(printed({ kind: "repeat", item: text("a"), min: 11 })).toBe(
      [
        "root ::= (block-2 block-3 block-4)",
        ...['block-1 ::= "a"{4,4}', "block-2 ::= block-1{2,2}"],
        ...['block-3 ::= "a"{3,3}', 'block-4 ::= "a"{0,}', ""],
      ].join("\n"),
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
