/** Any value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A JSON object: what a row must be. */
export type JsonObject = { [key: string]: Json };

/** True for a plain object; false for null, arrays, scalars and a `WrittenNumber`. */
export function isJsonObject(value: unknown): value is JsonObject {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Number)
  );
}

/** The value of a text in JSON; undefined if the text is not JSON. */
export function jsonIn(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** The JSON object in a text; undefined if the text is not a JSON object. */
export function jsonObjectIn(text: string): JsonObject | undefined {
  const value = jsonIn(text);
  return isJsonObject(value) ? value : undefined;
}

/** Whether a value nests deeper than that: endless nesting can be parsed, and never be written. */
export function isDeeperThan(depth: number, value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depth === 0) return true;
  for (const inner of Array.isArray(value) ? value : Object.values(value)) {
    if (isDeeperThan(depth - 1, inner)) return true;
  }
  return false;
}

/** Whether a value is of `JSON.rawJSON`. The types do not have it yet. */
const { isRawJSON: isRawJson } = JSON as unknown as { isRawJSON(value: unknown): boolean };

/**
 * JSON text with keys sorted at every level, so that equal values have equal text. Digests are
 * computed over it.
 *
 * @example
 * canonicalJson({ b: 1, a: [true] }); // '{"a":[true],"b":1}'
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (!isJsonObject(inner) || isRawJson(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
