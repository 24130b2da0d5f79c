import { describe, expect, it } from "vitest";
import { z } from "zod";
import { edgeSchemaOf } from "../../src/dataset/edge-schema.ts";

describe("edgeSchemaOf", () => {
  it("gives the JSON Schema of what needs no code", () => {
    const schema = z.strictObject({
      id: z.int().min(1),
      label: z.enum(["good", "bad"]).describe("what it is").nullable(),
      tags: z.array(z.string().regex(/^a/)).optional(),
      size: z.coerce.number(),
    });
    expect(edgeSchemaOf(schema, "schema")).toMatchObject({
      properties: { id: { minimum: 1 }, tags: { type: "array" }, size: { type: "number" } },
      required: ["id", "label", "size"],
    });
  });

  it.each([
    ["a default", z.string().default("x")],
    ["a catch", z.string().catch("x")],
    ["a transform", z.string().transform((text) => text.length)],
    ["a transform", z.preprocess(String, z.string())],
    ["a check by a function", z.string().refine((text) => text !== "")],
    ["a change of the value", z.string().trim()],
  ])("refuses %s, wherever it stands", (what, schema) => {
    expect(() => edgeSchemaOf(z.object({ a: schema }), "schema")).toThrow(`schema.a has ${what}`);
    const deep = z.object({ in: z.object({ a: z.array(schema) }) });
    expect(() => edgeSchemaOf(deep, "output")).toThrow(`output.in.a.items has ${what}`);
  });
});
