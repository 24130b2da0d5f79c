import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import type { Json, JsonObject } from "../../../src/foundation/json.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { spacedJson } from "../../../src/prompt/value-text.ts";
import { exact, formOf, list, tree } from "./schemas.ts";

/** Schemas of whatever nesting. */
const schemas = fc.letrec((tie) => ({
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom({ type: "null" }, { type: "boolean" }, { type: ["string", "null"] }),
    fc.record({
      type: fc.constant("string"),
      minLength: fc.nat(2),
      maxLength: fc.nat(4).map((n) => n + 2),
    }),
    fc.record({ enum: fc.array(fc.jsonValue({ maxDepth: 1 }), { minLength: 1, maxLength: 3 }) }),
    fc
      .record({ type: fc.constant("integer"), minimum: fc.integer({ min: -50, max: 50 }) })
      .map((schema) => ({ ...schema, maximum: schema.minimum + 9 })),
    fc.record({
      type: fc.constant("array"),
      items: tie("schema"),
      prefixItems: fc.array(tie("schema"), { maxLength: 2 }),
      minItems: fc.nat(3),
    }),
    fc
      .dictionary(fc.string({ unit: "grapheme" }), fc.tuple(tie("schema"), fc.boolean()), {
        maxKeys: 4,
        noNullPrototype: true,
      })
      .map((members) => ({
        type: "object",
        properties: Object.fromEntries(Object.entries(members).map(([name, [it]]) => [name, it])),
        required: Object.keys(members).filter((name) => members[name]![1]),
      })),
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
  ),
}));

describe("whatever the grammar writes", () => {
  for (const [name, schema] of Object.entries(exact)) {
    it(`is JSON that the schema allows: ${name}`, () => {
      const form = formOf(schema);
      for (const text of form.texts(200)) {
        expect(form.accept(text).value, text).toEqual(JSON.parse(text));
      }
    });
  }

  it("is also valid by another reading of JSON Schema", () => {
    // zod does not compare constants that are objects, and lets tuples be longer.
    const strange = ["constants", "a fixed tuple", "first elements and the rest"];
    for (const [name, schema] of Object.entries(exact)) {
      if (strange.includes(name)) continue;
      const other = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
      for (const text of formOf(schema).texts(50)) {
        const read = other.safeParse(JSON.parse(text));
        expect(read.error?.message, `${name}: ${text}`).toBeUndefined();
      }
    }
  });

  it("is valid, and taken by the automaton, whatever schemas are nested", () => {
    fc.assert(
      fc.property(schemas.schema, fc.integer(), (schema, seed) => {
        const { structure, accept } = formOf(schema as JsonObject);
        const text = grammarText(structure.grammar, seededRandom(seed));
        const automaton = new GrammarAutomaton(structure.grammar);
        expect(accept(text).value).toEqual(JSON.parse(text));
        expect(takes(automaton, text)).toBe(true);
      }),
      { numRuns: 300, seed: 4 },
    );
  });

  it("is what the automaton of the grammar takes", () => {
    for (const [name, schema] of Object.entries(exact)) {
      const form = formOf(schema);
      const automaton = new GrammarAutomaton(form.structure.grammar);
      for (const text of form.texts(30)) expect(takes(automaton, text), text).toBe(true);
      expect(takes(automaton, "nothing like it"), name).toBe(false);
    }
  });

  it("varies", () => {
    expect(new Set(formOf(exact.recursion!).texts(100)).size).toBeGreaterThan(50);
  });
});

describe("what a schema allows", () => {
  const values: [JsonObject, Json[]][] = [
    [
      exact["optional properties"]!,
      [
        { b: -12 },
        { a: 'é "\\n\\\\ 🥛', b: 0 },
        { b: 999_999_999_999_999, c: { d: null } },
        { a: "", b: 7, c: { d: null } },
      ],
    ],
    [
      exact["only optional properties"]!,
      [{}, { a: 1 }, { b: [] }, { c: "x" }, { a: 1, c: "x" }, { b: [true, false], c: "" }],
    ],
    [exact["first elements and the rest"]!, [["a"], ["a", 1], ["a", 1, true, null, null]]],
    [exact["near bounds"]!, [[1], [5, 3, 1]]],
    [
      tree,
      [
        {
          name: "a",
          parts: [
            { name: "b", parts: [] },
            { name: "c", parts: [] },
          ],
        },
      ],
    ],
    [{ type: "number" }, [0, -0.5, 12.125, 100_000]],
    [{ type: "integer", minimum: 0, maximum: 5000 }, [0, 17, 5000]],
    [{ type: "integer", maximum: -300 }, [-300, -4000]],
    [{ type: "string", minLength: 2, maxLength: 2 }, ["🥛🥛", '""', "\n\t"]],
    [
      list({ type: "null" }, { minItems: 2, maxItems: 3 }),
      [Array(2).fill(null), Array(3).fill(null)],
    ],
  ];
  for (const [schema, allowed] of values) {
    it(`the grammar takes: ${JSON.stringify(schema).slice(0, 70)}`, () => {
      const { structure, accept } = formOf(schema);
      const automaton = new GrammarAutomaton(structure.grammar);
      for (const value of allowed) {
        const text = spacedJson(value);
        expect(takes(automaton, text), text).toBe(true);
        expect(accept(text).value).toEqual(value);
      }
    });
  }
});

function takes(automaton: GrammarAutomaton, text: string): boolean {
  return automaton.stepAll(automaton.start, Buffer.from(text))?.isEnd ?? false;
}
