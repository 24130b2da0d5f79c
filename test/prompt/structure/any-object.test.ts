import { describe, expect, it } from "vitest";
import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import type { Json, JsonObject } from "../../../src/foundation/json.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { anyObjectForm } from "../../../src/prompt/structure/any-object.ts";
import { spacedJson } from "../../../src/prompt/value-text.ts";

const { grammar } = anyObjectForm().ask([]).structure!;

function takes(automaton: GrammarAutomaton, text: string): boolean {
  return automaton.stepAll(automaton.start, Buffer.from(text))?.isEnd ?? false;
}

/** An object with a value `depth` objects deep, the outermost included. */
function nested(depth: number): JsonObject {
  return depth === 1 ? { a: 1 } : { a: nested(depth - 1) };
}

describe("the grammar of any JSON object", () => {
  it("writes objects only, of every kind of value", () => {
    const kinds = new Set<string>();
    const note = (value: Json): void => {
      kinds.add(value === null ? "null" : Array.isArray(value) ? "list" : typeof value);
      if (typeof value === "object" && value !== null)
        for (const it of Object.values(value)) note(it);
    };
    for (let seed = 0; seed < 300; seed++) {
      const value = JSON.parse(grammarText(grammar, seededRandom(seed))) as Json;
      expect(Object.prototype.toString.call(value)).toBe("[object Object]");
      note(value);
    }
    expect([...kinds].sort()).toEqual(["boolean", "list", "null", "number", "object", "string"]);
  });

  it("takes what a model may write, and no further depth than its limit", () => {
    const automaton = new GrammarAutomaton(grammar);
    const object = { title: 'Süße "Suppe"\n', steps: [{ n: 1, at: -0.5 }, []], no: null, is: {} };
    expect(takes(automaton, spacedJson(object))).toBe(true);
    expect(takes(automaton, "{}")).toBe(true);
    for (const text of ["[1]", '"a"', '{"a": }', '{"a": 1', '{"a" 1}', '{"a": 01}']) {
      expect(takes(automaton, text), text).toBe(false);
    }
    const deepest = limits.maxFreeAnswerDepth;
    expect(takes(automaton, spacedJson(nested(deepest)))).toBe(true);
    expect(takes(automaton, spacedJson(nested(deepest + 1)))).toBe(false);
  });
});
