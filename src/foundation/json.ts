/** Any value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A JSON object: what a row must be. */
export type JsonObject = { [key: string]: Json };

/** True for a plain object, false for null, arrays and scalars, also for a `WrittenNumber`. */
export function isJsonObject(value: unknown): value is JsonObject {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Number)
  );
}

/** The object that a text is JSON of; undefined for any other text. */
export function jsonObjectIn(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Node's own: whether `JSON.stringify` writes a value as a text that is given. */
const { isRawJSON: isRawJson } = JSON as unknown as { isRawJSON(value: unknown): boolean };

/**
 * JSON text with keys sorted at every level, so that equal values have equal text. The text that
 * digests are taken of.
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
