import type { JsonObject } from "../../foundation/json.ts";
import { nearest } from "../../foundation/suggest.ts";
import { jobInvalid } from "../answer-form.ts";

/** The types of JSON Schema, each with the keywords for its values. */
export const keywordsByType: Readonly<Record<string, readonly string[]>> = {
  string: ["minLength", "maxLength", "pattern", "copyFrom", "maxWords", "orElse"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  array: ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
  object: ["properties", "required", "additionalProperties"],
  boolean: [],
  null: [],
};

/** Keywords that do not affect validity. */
const annotations = [
  ...["title", "description", "default", "examples", "format", "deprecated", "readOnly"],
  ...["writeOnly", "$comment", "$schema", "$id", "id", "$defs", "definitions"],
];

/** A schema has one of these keywords, besides annotations and, for the last two, `type`. */
const forms = ["$ref", "anyOf", "oneOf", "enum", "const"] as const;

const known = [
  ...new Set([...annotations, "type", ...forms, ...Object.values(keywordsByType).flat()]),
];

/** The form keyword of a schema, or `type` if it has none of the others. */
export type SchemaForm = (typeof forms)[number] | "type";

/**
 * Decides which form a schema has. Refuses unknown keywords, and keywords that do not go together:
 * if they were ignored, the results would be wrong in silence.
 *
 * @param types the types in the schema's `type`.
 * @throws SluiceError `JOB_INVALID`, which names the key.
 */
export function formOfSchema(
  schema: JsonObject,
  types: readonly string[],
  key: string,
): SchemaForm {
  const form = forms.find((name) => schema[name] !== undefined) ?? "type";
  const fitting = form === "type" ? types.flatMap((type) => keywordsByType[type]!) : [];
  const allowed = [...annotations, ...fitting, form];
  if (form === "enum" || form === "const") allowed.push("type");
  for (const name of Object.keys(schema)) {
    if (allowed.includes(name)) continue;
    if (!known.includes(name)) throw jobInvalid(`${key}.${name}`, unknown(name));
    const owner = Object.keys(keywordsByType).find((type) => keywordsByType[type]!.includes(name));
    const problem =
      form === "type" && owner !== undefined
        ? `${name} is for type ${owner}`
        : `${name} cannot stand beside ${form}`;
    throw jobInvalid(`${key}.${name}`, problem);
  }
  return form;
}

const instead: Readonly<Record<string, string>> = {
  allOf: "write one schema with all of it",
  patternProperties: "name each property in properties",
  propertyNames: "name each property in properties; a zod record becomes an array of pairs",
  not: "say what is allowed instead",
  if: "use anyOf",
};

function unknown(name: string): string {
  const way = instead[name];
  if (way !== undefined) return `${name} is not supported: ${way}`;
  const meant = nearest(name, known);
  return meant === undefined
    ? `${name} is not a supported keyword; see docs/job-file.md`
    : `${name} is not a supported keyword; did you mean ${meant}?`;
}
