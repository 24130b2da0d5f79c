import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { maxShownProblems } from "../../../src/prompt/structure/structured-form.ts";
import { formOf, list, objectOf, tree } from "./schemas.ts";

describe("an answer that is wrong", () => {
  const refusals: [string, JsonObject, string, string][] = [
    ["no JSON", { type: "null" }, "Sure! null", "it is not JSON"],
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
      "must have at least 2 elements, not 1",
    ],
    [
      "too many elements",
      list({ type: "null" }, { maxItems: 1 }),
      "[null,null]",
      "at most 1 elements",
    ],
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
    ["a text too short", { type: "string", minLength: 2 }, '"🥛"', "at least 2 characters, not 1"],
    ["a text too long", { type: "string", maxLength: 1 }, '"ab"', "at most 1 characters, not 2"],
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
    const count = maxShownProblems + 2;
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
