import type { Json } from "../foundation/json.ts";

/**
 * A value as `{{ value }}` prints it: text as it is, null as nothing, `true` and `false` in lower
 * case, lists and objects as JSON with a space after commas and colons.
 *
 * @example
 * printValue({ a: [1, null, "x"] }); // '{"a": [1, null, "x"]}'
 */
export function printValue(value: Json): string {
  if (typeof value === "string") return value;
  if (value === null) return "";
  return typeof value === "object" ? spacedJson(value) : String(value);
}

/** JSON on one line with a space after commas and colons, as people and models write it. */
export function spacedJson(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  const entries = Object.entries(value).map(
    ([key, inner]) => `${JSON.stringify(key)}: ${spacedJson(inner)}`,
  );
  return `{${entries.join(", ")}}`;
}

/** What a value is, for messages. */
export function kindOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  return { string: "a text", number: "a number", boolean: "a boolean" }[
    typeof value as "string" | "number" | "boolean"
  ];
}
