import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import { toCodeValue } from "../../../src/foundation/exact-json.ts";
import {
  greedyParameters,
  type InferenceResponse,
  noUsage,
} from "../../../src/foundation/inference.ts";
import type { Json, JsonObject } from "../../../src/foundation/json.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { compileStructuredForm } from "../../../src/prompt/structure/structured-form.ts";

const request = { origin: { index: 0, promptName: "prompt" } };
const parameters = {
  ...greedyParameters,
  maxNewTokens: 50,
  seed: 1,
};
const response = (text: string, finishReason: "stop" | "length" = "stop"): InferenceResponse => ({
  answers: [{ text, finishReason, tokens: 7 }],
  usage: noUsage,
  seconds: 0,
});

/** A schema at work on one row. */
export function formOf(schema: JsonObject, row: JsonObject = {}, item?: Json) {
  const form = compileStructuredForm(schema, "schema");
  const asked = form.ask(form.sources(row, item === undefined ? undefined : { item }));
  const structure = asked.structure!;
  const full = { ...request, parameters, ...asked };
  return {
    structure,
    /** The answer with numbers as code gets them. */
    accept: (text: string) => {
      const [answer] = form.accept(full, response(text)).answers;
      return { ...answer!, value: toCodeValue(answer!.value!) };
    },
    cut: (text: string) => form.accept(full, response(text, "length")),
    texts: (count: number) =>
      Array.from({ length: count }, (_, seed) =>
        grammarText(structure.grammar, seededRandom(seed)),
      ),
  };
}

export const list = (item: JsonObject, more: JsonObject = {}) => ({
  type: "array",
  items: item,
  ...more,
});
export const objectOf = (
  properties: JsonObject,
  required = Object.keys(properties),
): JsonObject => ({
  type: "object",
  properties,
  required,
});

export const tree: JsonObject = {
  $ref: "#/$defs/node",
  $defs: { node: objectOf({ name: { type: "string" }, parts: list({ $ref: "#/$defs/node" }) }) },
};

/** Schemas whose grammar is exact: whatever it writes is valid. */
export const exact: Record<string, JsonObject> = {
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
