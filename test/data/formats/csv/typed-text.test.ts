import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { fieldReader } from "../../../../src/data/formats/csv/typed-text.ts";
import type { Json, JsonObject } from "../../../../src/foundation/json.ts";

const readerOf = (property: Json) => fieldReader({ properties: { a: property } }, "a");

describe("fieldReader", () => {
  it.each([
    [{ type: "integer" }, " 42 ", "42"],
    [{ type: "integer" }, "-007", "-7"],
    [{ type: "integer" }, "3.0", "3"],
    [{ type: "integer" }, "12345678901234567890", "12345678901234567890"],
    [{ type: "integer" }, "1e3", '"1e3"'],
    [{ type: "number" }, "1e3", "1e3"],
    [{ type: "number" }, "+.50", "0.50"],
    [{ type: "number" }, "5.", "5"],
    [{ type: "number" }, "00.5E-2", "0.5E-2"],
    [{ type: "number" }, "NaN", '"NaN"'],
    [{ type: "boolean" }, "False", "false"],
    [{ type: "boolean" }, "1", '"1"'],
    [{ type: "object" }, '{"a": 1.0}', '{"a": 1.0}'],
    [{ type: "object" }, '{"a"', JSON.stringify('{"a"')],
    [{ type: ["array", "null"] }, "", "null"],
    [{ oneOf: [{ type: "integer" }, { type: "boolean" }] }, "TRUE", "true"],
    [{ const: 5 }, "5", "5"],
    [{ enum: ["5", null] }, "5", '"5"'],
    [{ enum: ["5", null] }, "", "null"],
    [{}, "5", '"5"'],
    [true, "5", '"5"'],
    [{ $ref: "#/properties/a" }, "5", '"5"'],
  ] as [Json, string, string][])("reads by %j the text %j", (property, text, json) => {
    expect(readerOf(property)(text)).toBe(json);
  });

  it("follows references, also by escaped keys", () => {
    const properties = { a: { $ref: "#/$defs/whole~1number" }, b: { $ref: "#/$defs/c" } };
    const schema = { properties, $defs: { "whole/number": { type: "integer" } } };
    expect(fieldReader(schema, "a")("5")).toBe("5");
    expect(fieldReader(schema, "b")("5")).toBe('"5"');
  });

  it.each([
    z.object({ a: z.string() }).and(z.object({ n: z.number() })),
    z.union([z.object({ n: z.number() }), z.object({ a: z.string() })]),
    z.discriminatedUnion("a", [
      z.object({ a: z.literal("x"), n: z.number() }),
      z.object({ a: z.literal("y"), n: z.null() }),
    ]),
    z.lazy(() => z.object({ n: z.number() })),
  ])("finds a field in all parts of a schema (%#)", (schema) => {
    const json = z.toJSONSchema(schema) as JsonObject;
    expect(fieldReader(json, "n")("7")).toBe("7");
    expect(fieldReader(json, "a")("7")).toBe('"7"');
    expect(fieldReader({ $ref: "#/$defs/row", $defs: { row: json } }, "n")("7")).toBe("7");
  });

  it("takes a field as text that may be text in one alternative, and follows no circle", () => {
    const [n, text] = [{ type: "number" }, { type: "string" }];
    const anyOf: Json[] = [{ properties: { n } }, { properties: { n: text } }, { $ref: "#" }];
    expect(fieldReader({ anyOf }, "n")("7")).toBe('"7"');
  });

  it("has no value for an empty text that no type takes", () => {
    expect(readerOf({ type: "integer" })("")).toBe(undefined);
    expect(readerOf({ type: "string" })("")).toBe('""');
    expect(fieldReader({}, "constructor")("x")).toBe('"x"');
  });

  it("reads back numbers as any language writes them", () =>
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.bigInt(), (x, n) => {
        expect(Number(readerOf({ type: "number" })(String(x)))).toBe(Number(String(x)));
        expect(readerOf({ type: "integer" })(String(n))).toBe(String(n));
      }),
    ));
});
