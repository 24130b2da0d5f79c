import type { Json } from "../../foundation/json.ts";

/** Characters that a number, a boolean or null counts as. */
const scalarChars = 8;

/**
 * Roughly the characters of a value as JSON: enough to limit memory, and far cheaper than writing
 * it.
 *
 * @example
 * rowChars({ text: "four" }); // 8
 */
export function rowChars(value: Json): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return scalarChars;
  if (ArrayBuffer.isView(value)) return (value as ArrayBufferView).byteLength;
  let chars = 0;
  if (Array.isArray(value)) {
    for (const inner of value) chars += rowChars(inner);
    return chars;
  }
  for (const key in value) chars += key.length + rowChars(value[key]!);
  return chars;
}
