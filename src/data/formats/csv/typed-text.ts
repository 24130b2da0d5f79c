import { isJsonObject, type Json, type JsonObject, jsonIn } from "../../../foundation/json.ts";

/**
 * The JSON text for a field's text, or undefined if the field has no value. A text that does not
 * fit the type stays text, and the check of the row reports it.
 */
export type FieldReader = (text: string) => string | undefined;

/**
 * Makes a reader for the type that a JSON Schema gives a field. A field without a property in the
 * schema is text, and a field that may be text stays text. Whole numbers keep every digit. Empty
 * text is null if null is allowed; if neither null nor text is allowed, the field has no value.
 *
 * @example
 * fieldReader({ properties: { n: { type: "integer" } } }, "n")("007"); // "7"
 */
export function fieldReader(schema: JsonObject, name: string): FieldReader {
  const types = new Set(
    [...partsOf(schema, schema)].flatMap(({ properties }) =>
      isJsonObject(properties) && Object.hasOwn(properties, name)
        ? typesOf(properties[name]!, schema)
        : [],
    ),
  );
  const isText = types.size === 0 || types.has("string");
  const empty = types.has("null") ? "null" : isText ? '""' : undefined;
  if (isText) return (text) => (text === "" ? empty : JSON.stringify(text));
  const readers = [...types].flatMap((type) => readerOfType[type] ?? []);
  return (text) => {
    const trimmed = text.trim();
    if (trimmed === "") return empty;
    for (const read of readers) {
      const json = read(trimmed);
      if (json !== undefined) return json;
    }
    return JSON.stringify(text);
  };
}

const readerOfType: Readonly<Record<string, FieldReader>> = {
  boolean: (text) => (/^(true|false)$/i.test(text) ? text.toLowerCase() : undefined),
  // Programs write whole numbers as 1.0 if the column has gaps.
  integer: (text) =>
    /^[+-]?\d+(\.0*)?$/.test(text) ? plainNumber(text.replace(/\..*/, "")) : undefined,
  number: (text) =>
    /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? plainNumber(text) : undefined,
  object: jsonText,
  array: jsonText,
};

/** A number as JSON has it: no plus sign, no leading zeros, digits on both sides of the point. */
function plainNumber(text: string): string {
  return text
    .replace(/^\+/, "")
    .replace(/^(-?)0+(?=\d)/, "$1")
    .replace(/^(-?)\./, "$10.")
    .replace(/\.(?=$|e)/i, "");
}

function jsonText(text: string): string | undefined {
  if (text[0] !== "{" && text[0] !== "[") return undefined;
  return jsonIn(text) === undefined ? undefined : text;
}

/** The JSON types that a schema allows; none if it names none. */
function typesOf(given: Json, root: JsonObject): string[] {
  return [...partsOf(given, root)].flatMap((schema) => [
    ...[schema.type ?? []].flat().map(String),
    ...[schema.enum ?? [], "const" in schema ? [schema.const!] : []].flat().map(typeOfValue),
  ]);
}

/** A schema, and all that it takes a value by: references, alternatives and parts. */
function partsOf(given: Json, root: JsonObject): Set<JsonObject> {
  const parts = new Set(isJsonObject(given) ? [given] : []);
  // A set gives out what is added meanwhile, once.
  for (const { $ref, anyOf = [], oneOf = [], allOf = [] } of parts) {
    const next = typeof $ref === "string" ? [referred(root, $ref)] : [];
    for (const part of [next, anyOf, oneOf, allOf].flat()) if (isJsonObject(part)) parts.add(part);
  }
  return parts;
}

function typeOfValue(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

function referred(root: JsonObject, reference: string): JsonObject {
  let found: Json = root;
  for (const part of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    found = isJsonObject(found) && Object.hasOwn(found, key) ? found[key]! : {};
  }
  return isJsonObject(found) ? found : {};
}
