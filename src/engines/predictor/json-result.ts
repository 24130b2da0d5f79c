import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";

/**
 * A result as JSON. Typed arrays become lists, and what has `toJSON` becomes that.
 *
 * @throws SluiceError `PREDICTION_FAILED` where JSON has no such value, naming its place: a result
 *   that came out changed in silence would be worse than none.
 * @example
 * jsonResult({ vector: new Float32Array([1, 2]) }); // { vector: [1, 2] }
 */
export function jsonResult(result: unknown): Json {
  return converted(result, "the result");
}

function converted(value: unknown, place: string): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw notJson(place, String(value));
    case "object":
      return value === null ? null : convertedObject(value, place);
    default:
      throw notJson(place, value === undefined ? "undefined" : `a ${typeof value}`);
  }
}

function convertedObject(value: object, place: string): Json {
  if (ArrayBuffer.isView(value) && Symbol.iterator in value) {
    return converted([...(value as Iterable<unknown>)], place);
  }
  if (Array.isArray(value)) return value.map((inner, at) => converted(inner, `${place}[${at}]`));
  if ("toJSON" in value && typeof value.toJSON === "function") {
    return converted(value.toJSON(), place);
  }
  const members: Record<string, Json> = {};
  for (const [key, inner] of Object.entries(value)) {
    // As JSON has it: a member that is not there.
    if (inner !== undefined) members[key] = converted(inner, `${place}.${key}`);
  }
  return members;
}

function notJson(place: string, what: string): SluiceError {
  return new SluiceError("PREDICTION_FAILED", `${place} is ${what}, which JSON does not have`);
}
