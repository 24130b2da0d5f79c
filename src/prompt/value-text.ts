import { type WrittenJson, WrittenNumber, type WrittenRow } from "../foundation/exact-json.ts";

/**
 * A value as `{{ value }}` prints it. A text is unchanged, a number is as written, null is nothing,
 * `true` and `false` are in lower case. Lists and objects are JSON with a space after commas and
 * colons.
 *
 * @example
 * printValue({ a: [1, null, "x"] }); // '{"a": [1, null, "x"]}'
 */
export function printValue(value: WrittenJson): string {
  if (typeof value === "string") return value;
  if (value === null) return "";
  return isObject(value) || Array.isArray(value) ? spacedJson(value) : String(value);
}

/** JSON on one line with a space after commas and colons, the usual form of people and models. */
export function spacedJson(value: WrittenJson): string {
  if (typeof value === "bigint") return String(value);
  if (value instanceof WrittenNumber && value.isSpecial) return "null";
  if (!isObject(value) && !Array.isArray(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  const entries = Object.entries(value).map(
    ([key, inner]) => `${JSON.stringify(key)}: ${spacedJson(inner)}`,
  );
  return `{${entries.join(", ")}}`;
}

/** True for an object with fields; false for null, lists and scalars. */
export function isObject(value: WrittenJson | undefined): value is WrittenRow {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isNumber(value);
}

/** True for a number in any of its forms. */
export function isNumber(value: WrittenJson): value is number | bigint | WrittenNumber {
  return typeof value === "number" || typeof value === "bigint" || value instanceof WrittenNumber;
}

/** A number that stays a decimal if it is whole, such as `2.0`. */
export function decimal(value: number): number | WrittenNumber {
  return /^-?\d+$/.test(String(value)) ? new WrittenNumber(`${value}.0`) : value;
}

/** True for a text, a number or a boolean. */
export function isScalar(value: WrittenJson): boolean {
  return value !== null && !Array.isArray(value) && !isObject(value);
}

/** The type of a value, for messages. */
export function kindOf(value: WrittenJson): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (isObject(value)) return "an object";
  if (typeof value === "string") return "a text";
  return typeof value === "boolean" ? "a boolean" : "a number";
}
