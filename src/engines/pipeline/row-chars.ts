import type { Json } from "../../foundation/json.ts";

/** Characters that a number, a boolean or null counts as. */
const scalarChars = 8;

/**
 * About how many characters a value takes as JSON: enough to bound memory by, and far cheaper than
 * to write it out.
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
