import { describe, expect, it } from "vitest";
import { jobJsonSchema } from "../../../src/run/job/json-schema.ts";
import type { SchemaNode } from "../../../src/run/job/schema-tree.ts";

describe("jobJsonSchema", () => {
  const { properties = {} } = jobJsonSchema() as SchemaNode;
  const titlesOf = ({ anyOf, oneOf }: SchemaNode = {}) => (anyOf ?? oneOf)?.map((it) => it.title);

  it("names the forms of each union, for editors that let one choose", () => {
    expect(titlesOf(properties.model)).toContain("engine: openai");
    expect(titlesOf(properties.input)).toEqual(["text", "an object with path", "a list"]);
    const untitled: string[] = [];
    const look = (node: SchemaNode, path: string): void => {
      for (const form of node.anyOf ?? node.oneOf ?? []) {
        if (form.title === undefined) untitled.push(path);
        look(form, path);
      }
      for (const [key, inner] of Object.entries(node.properties ?? {}))
        look(inner, `${path}.${key}`);
    };
    look({ properties }, "");
    expect(untitled).toEqual([]);
  });

  it("tells what every key means", () => {
    const bare: string[] = [];
    const look = (node: SchemaNode, path: string): void => {
      for (const form of node.anyOf ?? node.oneOf ?? []) look(form, path);
      for (const [key, inner] of Object.entries(node.properties ?? {})) {
        if (!inner.description) bare.push(`${path}.${key}`);
        look(inner, `${path}.${key}`);
      }
      if (node.items) look(node.items, path);
    };
    look({ properties }, "");
    expect(bare).toEqual([]);
  });
});
