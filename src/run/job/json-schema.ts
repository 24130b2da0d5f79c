import { z } from "zod";
import { otherGenerationNames, otherRootNames } from "./generation-names.ts";
import { jobShape } from "./schema.ts";
import { formsOf, type SchemaNode } from "./schema-tree.ts";

/**
 * The JSON Schema (draft 2020-12) of the job file for editors, made from the zod schema: the
 * content of `schema/job.json`. `kind` at a key says how its change affects a run that already has
 * answers.
 */
export function jobJsonSchema(): Readonly<Record<string, unknown>> {
  const { $schema, ...rest } = z.toJSONSchema(jobShape, { io: "input" });
  const { properties = {} } = rest as SchemaNode;
  const generation = formsOf(properties.generation!).find((form) => form.properties)!;
  addOtherNames(generation.properties!, otherGenerationNames);
  addOtherNames(properties, otherRootNames);
  addTitles(rest as SchemaNode);
  return {
    $schema,
    title: "Sluice job",
    description: "What to read, which model answers which prompts, and where results go",
    ...rest,
  };
}

/** Editors show the titles of a union's forms when one must be chosen. */
function addTitles(node: SchemaNode): void {
  for (const form of node.anyOf ?? node.oneOf ?? []) form.title ??= titleOf(form);
  const { anyOf = [], oneOf = [], properties = {}, items, additionalProperties } = node;
  const inner = [...anyOf, ...oneOf, ...Object.values(properties), items, additionalProperties];
  for (const each of inner) if (typeof each === "object") addTitles(each);
}

const typeTitles: Readonly<Record<string, string>> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  null: "nothing",
};

function titleOf({ properties, required = [], enum: words, const: word, type }: SchemaNode) {
  const engine = properties?.engine?.const;
  if (typeof engine === "string") return `engine: ${engine}`;
  if (word !== undefined || words) return (words ?? [word]).join(" or ");
  if (typeof type === "string" && type !== "object") return typeTitles[type] ?? type;
  const keys = required.length > 0 ? required : Object.keys(properties ?? {}).slice(0, 3);
  return keys.length > 0 ? `an object with ${keys.join(", ")}` : "an object";
}

/** Editors also accept the other names of keys; the program translates them before it checks. */
function addOtherNames(keys: Record<string, SchemaNode>, names: ReadonlyMap<string, string>): void {
  for (const [name, key] of names) {
    const own = keys[key]!;
    const { description: _, kind: __, default: ___, otherNames = [], ...type } = own;
    keys[name] = { ...type, description: `Another name of ${key}`, otherNameOf: key };
    keys[key] = { ...own, otherNames: [...otherNames, name] };
  }
}
