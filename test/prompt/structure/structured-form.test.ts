import { describe, expect, it } from "vitest";
import { z } from "zod";
import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import { type InferenceResponse, noUsage } from "../../../src/foundation/inference.ts";
import type { Json, JsonObject } from "../../../src/foundation/json.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { candidateSpans } from "../../../src/foundation/spans.ts";
import { compileStructuredForm } from "../../../src/prompt/structure/structured-form.ts";
import { spacedJson } from "../../../src/prompt/value-text.ts";

const request = { index: 0, promptName: "prompt", onTooLong: "fail" as const };
const parameters = {
  ...{ maxNewTokens: 50, temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 },
  ...{ presencePenalty: 0, frequencyPenalty: 0, seed: 1, stop: [] },
};
const response = (text: string, finishReason: "stop" | "length" = "stop"): InferenceResponse => ({
  answers: [{ text, finishReason, tokens: 7 }],
  usage: noUsage,
  seconds: 0,
});

/** A schema at work on one row. */
function formOf(schema: JsonObject, row: JsonObject = {}, item?: Json) {
  const form = compileStructuredForm(schema, "schema");
  const asked = form.ask(row, item === undefined ? undefined : { item });
  const structure = asked.structure!;
  const full = { ...request, parameters, ...asked };
  return {
    structure,
    accept: (text: string) => form.accept(full, response(text)).answers[0]!,
    cut: (text: string) => form.accept(full, response(text, "length")),
    texts: (count: number) =>
      Array.from({ length: count }, (_, seed) =>
        grammarText(structure.grammar, seededRandom(seed)),
      ),
  };
}

const list = (item: JsonObject, more: JsonObject = {}) => ({ type: "array", items: item, ...more });
const objectOf = (properties: JsonObject, required = Object.keys(properties)): JsonObject => ({
  type: "object",
  properties,
  required,
});

const tree: JsonObject = {
  $ref: "#/$defs/node",
  $defs: { node: objectOf({ name: { type: "string" }, parts: list({ $ref: "#/$defs/node" }) }) },
};

/** Schemas whose grammar is exact: whatever it writes is valid. */
const exact: Record<string, JsonObject> = {
  scalars: objectOf({
    text: { type: "string" },
    count: { type: "integer", minimum: 0 },
    share: { type: "number" },
    isFine: { type: "boolean" },
    nothing: { type: "null" },
  }),
  "texts of bounded length": list({ type: "string", minLength: 1, maxLength: 3 }),
  "a text of no length": { type: "string", maxLength: 0 },
  "near bounds": list({ type: "integer", minimum: 1, maximum: 5 }, { minItems: 1, maxItems: 3 }),
  "multiples between bounds": { type: "integer", exclusiveMinimum: 0, maximum: 40, multipleOf: 8 },
  "optional properties": objectOf(
    { a: { type: "string" }, b: { type: "integer" }, c: objectOf({ d: { type: "null" } }) },
    ["b"],
  ),
  "only optional properties": objectOf(
    { a: { enum: [1] }, b: list({ type: "boolean" }), c: { type: "string" } },
    [],
  ),
  "no property at all": { type: "object" },
  constants: objectOf({
    one: { const: { a: [1, "é"], b: null } },
    several: { enum: ['say "yes"', "a\\b\n", null, 1.5, "\u{1f600}", "\ud800"] },
    ofType: { type: "string", enum: ["x", 3] },
  }),
  alternatives: list({
    anyOf: [{ type: "string" }, { type: "null" }, objectOf({ a: { type: "integer" } })],
  }),
  "types in a list": objectOf({ a: { type: ["string", "null", "array"], items: { const: 1 } } }),
  "told apart by a constant": list({
    oneOf: [
      objectOf({ kind: { const: "circle" }, radius: { type: "number" } }),
      objectOf({ kind: { const: "square" }, side: { type: "number" } }),
    ],
  }),
  "first elements and the rest": {
    type: "array",
    prefixItems: [{ type: "string" }, { type: "integer" }, { type: "boolean" }],
    items: { type: "null" },
    minItems: 1,
    maxItems: 5,
  },
  "a fixed tuple": { type: "array", prefixItems: [{ type: "string" }, { const: 2 }] },
  recursion: tree,
  "recursion through the root": objectOf({ next: { anyOf: [{ $ref: "#" }, { type: "null" }] } }),
  "odd names": objectOf({
    'a "b"': { type: "null" },
    "c/d~e": { type: "boolean" },
    "ü ": { type: "null" },
  }),
  patterns: objectOf({
    day: { type: "string", pattern: "^\\d{4}-(0[1-9]|1[0-2])-[0-3]\\d$" },
    open: { type: "string", pattern: "[aeiou]+y" },
    quoted: { type: "string", pattern: '^"[^"\\\\]*"\\n?$' },
    other: { type: "string", pattern: "^(?:[^a-z\\s]|\\.{2,}|x*?)$|^\\u00e9\\x41" },
  }),
};

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

  it("is valid by the schema that servers get", () => {
    for (const [name, schema] of Object.entries(exact)) {
      const form = formOf(schema);
      const sent = formOf(form.structure.schema);
      for (const text of form.texts(50)) expect(() => sent.accept(text), name).not.toThrow();
    }
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

const step = "Heat to 375 degrees F (190 degrees C).  Bake for 12 minutes; turn; bake 5 minutes.";
const measure = {
  type: ["string", "null"],
  copyFrom: "item",
  maxWords: 3,
  pattern: "\\d+ (minutes|degrees [CF])",
};
const measures = objectOf({ all: list(objectOf({ what: { type: "string" }, measure })) });

describe("a field that copies", () => {
  it("is written from the words of its text, or left empty, in an array as well", () => {
    const form = formOf(measures, {}, step);
    const found = new Set<Json>();
    for (const text of form.texts(300)) {
      const { value, spans } = form.accept(text);
      expect(value).toEqual(JSON.parse(text));
      for (const [at, { measure }] of (value as { all: { measure: Json }[] }).all.entries()) {
        found.add(measure);
        const place = spans![`/all/${at}/measure`];
        if (measure === null) expect(place).toBeUndefined();
        else expect(step.slice(...place!)).toBe(measure);
      }
    }
    const written = ["375 degrees F", "190 degrees C", "12 minutes", "5 minutes", null];
    expect([...found].sort()).toEqual(written.sort());
  });

  it("says where its words stand, in the spelling of the text", () => {
    const schema = objectOf({ what: { type: "string", copyFrom: "text", orElse: "none" } });
    const row = { text: "  Mix\n the   “warm” milk — slowly. 🥛 Stir." };
    const { accept } = formOf(schema, row);
    const answer = accept('{"what": "THE warm milk"}');
    expect(answer.value).toEqual({ what: "the “warm” milk" });
    expect(row.text.slice(...answer.spans!["/what"]!)).toBe("the   “warm” milk");
    expect(accept('{"what": "none"}')).toMatchObject({ value: { what: "none" }, spans: {} });
    const stir = accept('{"what": "🥛 Stir"}').spans!["/what"]!;
    expect(row.text.slice(...stir)).toBe("🥛 Stir");
  });

  it("refuses what does not stand there, what is too long, and what has not the form", () => {
    const { accept } = formOf(measures, {}, step);
    const wrong = (measure: string) => () => accept(`{"all":[{"what":"","measure":${measure}}]}`);
    expect(wrong('"11 minutes"')).toThrow(
      '/all/0/measure is "11 minutes", not copied word by word from "Heat to 375 degrees F (190',
    );
    expect(wrong('"11 minutes"')).toThrow("write null where there is nothing to copy");
    expect(wrong('"for 12 minutes; turn"')).toThrow(
      'has 4 words ("for 12 minutes; turn"), at most',
    );
    expect(wrong('"turn"')).toThrow(
      'is "turn", which does not have the form \\d+ (minutes|degrees',
    );
    expect(wrong("12")).toThrow("/all/0/measure must be a text, not a number");
    expect(wrong('""')).toThrow("not copied word by word");
  });

  it("is sent as the list of what it may hold, as long as that is not too long", () => {
    const two = objectOf({ a: measure, b: { type: "string", copyFrom: "item", maxWords: 30 } });
    const { structure } = formOf(two, {}, step);
    const few = candidateSpans(structure.copies![0]!);
    expect(structure.schema.properties).toEqual({
      a: { type: ["string", "null"], enum: [null, ...few] },
      b: { type: "string", enum: ["", ...candidateSpans(structure.copies![1]!)] },
    });
    const long = Array.from({ length: limits.maxEnumeratedSpans }, (_, at) => `word${at}`).join(
      " ",
    );
    expect(formOf(two, {}, `${long} 5 minutes`).structure.schema.properties).toEqual({
      a: { type: ["string", "null"], enum: [null, "5 minutes"] },
      b: { type: "string" },
    });
  });

  it("takes each row's own text, and escapes it", () => {
    const form = compileStructuredForm({ type: "string", copyFrom: "a ~ b" }, "schema");
    expect(form.variables.toSorted()).toEqual(["a", "b"]);
    const row = { a: 'He said: "yes', b: '" \\ and\tleft' };
    const { accept, texts } = formOf({ type: "string", copyFrom: "a ~ b", maxWords: 5 }, row);
    const values = texts(200).map((text) => accept(text).value);
    expect(values).toContain('said: "yes" \\');
  });

  it("fails the row where there is no text, or too much of it", () => {
    const form = compileStructuredForm(measures, "schema");
    const key = "schema.properties.all.items.properties.measure.copyFrom: item is a list";
    expect(() => form.ask({}, { item: [1] })).toThrow(key);
    expect(() => form.ask({}, { item: "a ".repeat(2000) })).toThrow("would copy from 2000 words");
    expect(formOf(measures, {}, "").accept('{"all": []}').value).toEqual({ all: [] });
  });

  it("may stand in something that refers to itself", () => {
    const parts = objectOf({
      name: { type: "string", copyFrom: "text", maxWords: 1 },
      parts: list({ $ref: "#" }),
    });
    const { accept, texts } = formOf(parts, { text: "wheel of steel" });
    for (const text of texts(50)) expect(() => accept(text)).not.toThrow();
    const { spans } = accept('{"name": "", "parts": [{"name": "steel", "parts": []}]}');
    expect(spans).toEqual({ "/parts/0/name": [9, 14] });
  });
});

describe("an answer that is wrong", () => {
  const refusals: [string, JsonObject, string, string][] = [
    ["no JSON", { type: "null" }, "Sure! null", "it is no JSON"],
    ["another type", { type: "boolean" }, '"true"', 'the answer must be true or false, not "true"'],
    ["a missing property", objectOf({ a: { type: "null" } }), "{}", "/a is missing"],
    [
      "a property too many",
      objectOf({ a: { type: "null" } }),
      '{"a":null,"b":1}',
      "/b is not asked",
    ],
    [
      "a list in place of an object",
      objectOf({}),
      "[]",
      "the answer must be an object, not a list",
    ],
    ["an object in place of a list", list({ type: "null" }), "{}", "must be a list, not an object"],
    [
      "too few elements",
      list({ type: "null" }, { minItems: 2 }),
      "[null]",
      "has 1 elements, at le",
    ],
    ["too many elements", list({ type: "null" }, { maxItems: 1 }), "[null,null]", "at most 1 are"],
    [
      "elements twice",
      list({ type: "integer" }, { uniqueItems: true }),
      "[1,2,1]",
      "element twice",
    ],
    ["an element of another type", list({ type: "null" }), "[null,1]", "/1 must be null, not 1"],
    ["a fraction", { type: "integer" }, "1.5", "must be a whole number, not 1.5"],
    ["a number below", { type: "number", minimum: 2 }, "1", "must be a number, at least 2, not 1"],
    ["a number at a bound", { type: "number", exclusiveMaximum: 2 }, "2", "below 2, not 2"],
    ["no multiple", { type: "number", multipleOf: 0.1 }, "0.25", "a multiple of 0.1, not 0.25"],
    ["a text too short", { type: "string", minLength: 2 }, '"🥛"', "has 1 characters, at least 2"],
    ["a text too long", { type: "string", maxLength: 1 }, '"ab"', "has 2 characters, at most 1"],
    ["a text without the form", { type: "string", pattern: "^a\\b" }, '"b"', "does not match ^a"],
    ["none of the values", { enum: ["a", 1] }, '"b"', 'must be one of "a", 1, not "b"'],
    [
      "none of the forms",
      { anyOf: [{ type: "string" }, { type: "null" }] },
      "1",
      "the answer must be a text or null, not 1",
    ],
    [
      "a fault within one of the forms",
      { anyOf: [{ type: "null" }, objectOf({ a: { type: "string" } })] },
      '{"a": 1}',
      "/a must be a text, not 1",
    ],
    [
      "two forms of which one was asked for",
      { oneOf: [{ type: "integer" }, { type: "number" }] },
      "1",
      "fits two of the forms",
    ],
  ];
  for (const [name, schema, text, message] of refusals) {
    it(`is refused with what is wrong: ${name}`, () => {
      expect(() => formOf(schema).accept(text)).toThrow(
        expect.objectContaining({
          code: "ANSWER_INVALID",
          message: expect.stringContaining(message),
        }),
      );
    });
  }

  it("is told all its faults, up to a number", () => {
    const many = list({ type: "null" });
    const count = limits.maxShownProblems + 2;
    const text = JSON.stringify(Array.from({ length: count }, (_, at) => at));
    expect(() => formOf(many).accept(text)).toThrow("/4 must be null, not 4; and 2 more");
  });

  it("says when it was cut off", () => {
    expect(() => formOf(tree).cut('{"name": "a')).toThrow("cut off after 7 tokens");
  });

  it("may lack all but the JSON that a model put into a fenced block", () => {
    expect(formOf(tree).accept('```json\n{"name": "a", "parts": []}\n```\n').value).toEqual({
      name: "a",
      parts: [],
    });
  });

  it("keeps no member that JavaScript would take for a prototype", () => {
    expect(() => formOf(objectOf({})).accept('{"__proto__": {"a": 1}}')).toThrow(
      "/__proto__ is not",
    );
  });
});
