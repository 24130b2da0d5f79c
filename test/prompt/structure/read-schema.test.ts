import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { readSchema } from "../../../src/prompt/structure/read-schema.ts";

const read = (schema: unknown) => readSchema(schema as JsonObject, "prompts.a.schema");

const words = Array.from({ length: 5000 }, (_, at) => `word${at}`);
const one = { type: "string" };

describe("readSchema", () => {
  it("keeps the first of equal values, of 100,000 in a moment", () => {
    const few = [1, { a: 1, b: [2] }, "1", { b: [2], a: 1 }, null, 1, "1"];
    expect(read({ enum: few }).root).toMatchObject({ values: [1, { a: 1, b: [2] }, "1", null] });
    const many = Array.from({ length: 100_000 }, (_, at) => `value ${at}`);
    expect(read({ enum: [...many, ...many] }).root).toMatchObject({ values: many });
  });

  const chain = (next: (ref: JsonObject) => JsonObject, length = 20_000) => {
    const definitions = Array.from({ length }, (_, at) => [
      `d${at}`,
      at === length - 1 ? { type: "string" } : next({ $ref: `#/$defs/d${at + 1}` }),
    ]);
    return { $defs: Object.fromEntries(definitions) as JsonObject };
  };
  const inside = (ref: JsonObject) => ({ type: "object", properties: { a: ref } });
  /** Read from its end, so that no schema lies deep in another. */
  const fromItsEnd = (length: number) => ({
    type: "object",
    properties: Object.fromEntries(
      Array.from({ length }, (_, at) => [`p${at}`, { $ref: `#/$defs/d${length - 1 - at}` }]),
    ),
    ...chain((ref) => ref, length),
  });

  it.each<[string, unknown, string]>([
    ["references", { ...chain((ref) => ref), $ref: "#/$defs/d0" }, "more than 250 schemas deep"],
    ["objects", { ...chain(inside), $ref: "#/$defs/d0" }, "more than 250 schemas deep"],
    ["references from their end", fromItsEnd(2000), "more than 250 references that follow"],
    [
      "properties",
      { type: "object", properties: Object.fromEntries(words.map((word) => [word, one])) },
      "more than 5000 schemas inside",
    ],
    ["alternatives", { anyOf: words.map(() => one) }, "more than 5000 schemas inside"],
  ])("refuses too many %s", (_name, schema, problem) => {
    expect(() => read(schema)).toThrow(
      expect.objectContaining({ code: "JOB_INVALID", message: expect.stringContaining(problem) }),
    );
  });

  it("reads references that follow on one another", () => {
    expect(read(fromItsEnd(200)).rules.size).toBe(200);
  });

  const inObject = (property: unknown) => ({ type: "object", properties: { a: property } });
  const below = "prompts.a.schema.properties.a";
  const refusals: [unknown, string, string][] = [
    [{ type: "strin" }, "prompts.a.schema.type", '"strin" is none of string, number'],
    [inObject({ type: "string", maxLenght: 3 }), `${below}.maxLenght`, "did you mean maxLength?"],
    [inObject({ type: "string", minimum: 3 }), `${below}.minimum`, "minimum is for type number"],
    [inObject({}), below, "it does not say what is valid"],
    [inObject(true), below, "it must be a schema (an object), not a boolean"],
    [{ allOf: [] }, "prompts.a.schema.allOf", "write one schema with all of it"],
    [{ not: {} }, "prompts.a.schema.not", "say what is allowed instead"],
    [{ anyOf: [] }, "prompts.a.schema.anyOf", "it must be a list of schemas"],
    [{ anyOf: [{}], required: [] }, "prompts.a.schema.required", "cannot stand beside anyOf"],
    [{ type: "array" }, "prompts.a.schema.items", "it is missing"],
    [{ type: "array", items: [] }, "prompts.a.schema.items", "it must be a schema (an object)"],
    [{ type: "object", required: ["a"] }, "prompts.a.schema.required", "a is none of the proper"],
    [
      { type: "object", additionalProperties: { type: "string" } },
      "prompts.a.schema.additionalProperties",
      "nothing but the properties is written",
    ],
    [{ enum: "a" }, "prompts.a.schema.enum", "it must be a list of values"],
    [{ type: "string", enum: [1] }, "prompts.a.schema.enum", "it names no value of the type"],
    [{ type: "string", pattern: "(" }, "prompts.a.schema.pattern", "Unterminated group"],
    [{ type: "string", minLength: 3, maxLength: 2 }, "prompts.a.schema.minLength", "3 is more"],
    [{ type: "number", minimum: 3, maximum: 2 }, "prompts.a.schema.minimum", "above maximum"],
    [{ type: "integer", minimum: 1.1, maximum: 1.9 }, "prompts.a.schema", "no number fits"],
    [{ type: "number", multipleOf: 0 }, "prompts.a.schema.multipleOf", "must be above 0"],
    [
      { type: "array", items: { type: "null" }, maxItems: -1 },
      "prompts.a.schema.maxItems",
      "whole",
    ],
    [{ $ref: "#/$defs/a" }, "prompts.a.schema.$ref", "there is no #/$defs/a"],
    [{ $ref: "#/%E0%A4%A" }, "prompts.a.schema.$ref", "has a % that begins no character"],
    [{ $ref: "other.json#/a" }, "prompts.a.schema.$ref", "only references within the schema"],
    [{ $ref: "#" }, "prompts.a.schema", "# refers to itself with nothing in between"],
    [
      { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] },
      "prompts.a.schema",
      "# needs itself inside without end",
    ],
    [{ type: "string", maxWords: 3 }, "prompts.a.schema.maxWords", "maxWords needs copyFrom"],
    [{ type: "number", copyFrom: "a" }, "prompts.a.schema.copyFrom", "copyFrom is for type string"],
    [{ type: "string", copyFrom: "a", maxLength: 3 }, "prompts.a.schema.maxLength", "beside copyF"],
    [{ type: "string", copyFrom: "a", maxWords: 65 }, "prompts.a.schema.maxWords", "from 1 to 64"],
    [{ type: "string", copyFrom: "a", orElse: null }, "prompts.a.schema.orElse", "be a text, as"],
    [{ type: "string", copyFrom: "a", pattern: "(" }, "prompts.a.schema.pattern", "Unterminated"],
    [{ type: "string", copyFrom: 1 }, "prompts.a.schema.copyFrom", "it must be a text"],
    [
      { type: ["string", "number"], copyFrom: "a" },
      "prompts.a.schema.copyFrom",
      "or [string, null]",
    ],
  ];
  for (const [schema, field, message] of refusals) {
    it(`refuses ${JSON.stringify(schema)}, naming the key`, () => {
      expect(() => read(schema)).toThrow(
        expect.objectContaining({
          code: "JOB_INVALID",
          place: expect.objectContaining({ field }),
          message: expect.stringContaining(message),
        }),
      );
    });
  }

  it("names a copyFrom that is no expression", () => {
    expect(() => read(inObject({ type: "string", copyFrom: "a |" }))).toThrow(
      expect.objectContaining({
        code: "TEMPLATE_INVALID",
        message: expect.stringContaining(`${below}.copyFrom`),
      }),
    );
  });

  it("takes what zod writes", () => {
    const schema = z.object({
      id: z.uuid(),
      mail: z.email().optional(),
      day: z.iso.date().nullable(),
      rating: z.int().min(1).max(5).describe("Stars"),
      price: z.number().positive(),
      tags: z.array(z.enum(["a", "b"])).max(3),
      shape: z.discriminatedUnion("kind", [
        z.object({ kind: z.literal("circle"), radius: z.number() }),
        z.object({ kind: z.literal("square") }),
      ]),
      pair: z.tuple([z.string(), z.boolean()]),
      get parts() {
        return z.array(schema);
      },
    });
    const { root, rules } = read(z.toJSONSchema(schema, { io: "input" }));
    expect(root.kind).toBe("object");
    expect([...rules.keys()]).toEqual(["#"]);
  });

  it("takes a copying text of zod that may be null, wherever its meta stands", () => {
    const copying = { copyFrom: "text", maxWords: 3 };
    const copy = { kind: "copy", copyFrom: "text", maxWords: 3, orElse: null, isNullable: true };
    const schemas = [
      z.string().meta(copying).nullable(),
      z.string().nullable().meta(copying),
      z.union([z.string(), z.null()]).meta(copying),
    ];
    for (const schema of schemas) expect(read(z.toJSONSchema(schema)).root).toMatchObject(copy);
  });

  it("follows references through names that need escapes", () => {
    const $defs = { "a/b~c": { type: "null" } };
    const { rules } = read({ $ref: "#/$defs/a~1b~0c", $defs });
    expect([...rules.values()]).toEqual([{ kind: "null" }]);
  });
});
