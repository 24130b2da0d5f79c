import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { readSchema } from "../../../src/prompt/structure/read-schema.ts";
import { sentSchema } from "../../../src/prompt/structure/sent-schema.ts";
import { exact, formOf, tree } from "./schemas.ts";

describe("the schema that servers get", () => {
  it("allows what the grammar writes", () => {
    for (const [name, schema] of Object.entries(exact)) {
      const form = formOf(schema);
      const sent = formOf(form.structure.schema);
      for (const text of form.texts(50)) expect(() => sent.accept(text), name).not.toThrow();
    }
  });

  it("is closed, without what is only ours, and keeps what is said to the model", () => {
    const schema: JsonObject = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      description: "A recipe",
      type: "object",
      properties: {
        stars: { type: "integer", minimum: 1, description: "1 to 5", default: 3 },
        kind: { oneOf: [{ const: "a" }, { enum: ["b", 1, null] }] },
        words: { type: "string", copyFrom: "text", maxWords: 2, pattern: "a", orElse: "-" },
      },
      required: ["stars"],
    };
    expect(sentSchema(readSchema(schema, "schema"), () => ["-", "a b"])).toEqual({
      description: "A recipe",
      type: "object",
      properties: {
        stars: { type: "integer", minimum: 1, description: "1 to 5" },
        kind: {
          anyOf: [
            { type: "string", enum: ["a"] },
            { type: ["string", "number", "null"], enum: ["b", 1, null] },
          ],
        },
        words: { type: "string", enum: ["-", "a b"] },
      },
      required: ["stars"],
      additionalProperties: false,
    });
  });

  it("names what it refers to in $defs", () => {
    const sent = sentSchema(readSchema(tree, "schema"), () => undefined);
    expect(sent).toMatchObject({
      $ref: "#/$defs/node_1",
      $defs: { node_1: { properties: { parts: { items: { $ref: "#/$defs/node_1" } } } } },
    });
  });
});
