import { describe, expect, it } from "vitest";
import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import type { Grammar, GrammarNode } from "../../../src/foundation/grammar.ts";
import { seededRandom } from "../../../src/foundation/random.ts";

const text = (value: string): GrammarNode => ({ kind: "text", text: value });
const rule = (name: string): GrammarNode => ({ kind: "rule", name });
const texts = (grammar: Grammar, count = 200) =>
  Array.from({ length: count }, (_, seed) => grammarText(grammar, seededRandom(seed)));

describe("grammarText", () => {
  it("chooses among all choices, repeats within bounds, and takes characters of the ranges", () => {
    const item: GrammarNode = {
      kind: "characters",
      ranges: [
        [0x62, 0x64],
        [0x1f600, 0x1f601],
      ],
    };
    const root: GrammarNode = {
      kind: "sequence",
      items: [
        { kind: "choice", items: [text("x"), text("y")] },
        { kind: "repeat", item, min: 1, max: 3 },
        { kind: "repeat", item: text("!"), min: 0 },
      ],
    };
    const found = texts({ root, rules: {} });
    for (const each of found) expect(each).toMatch(/^[xy][bcd😀😁]{1,3}!*$/u);
    expect(new Set(found.map((each) => each[0]))).toEqual(new Set(["x", "y"]));
    expect(found.some((each) => /\u{1f600}/u.test(each))).toBe(true);
    expect(grammarText({ root, rules: {} }, seededRandom(5))).toBe(found[5]);
  });

  it("finds an end of rules that refer to themselves", () => {
    const pair = [text("("), rule("either"), rule("either"), text(")")];
    const rules: Grammar["rules"] = {
      either: { kind: "choice", items: [{ kind: "sequence", items: pair }, rule("end")] },
      end: text("."),
    };
    for (const each of texts({ root: rule("either"), rules })) {
      expect(each).toMatch(/^[().]+$/);
      expect(each.split("(").length).toBe(each.split(")").length);
    }
  });

  it("says when nothing can be written", () => {
    expect(() =>
      grammarText({ root: { kind: "choice", items: [] }, rules: {} }, seededRandom(1)),
    ).toThrow(RangeError);
  });
});
