import type { JsonObject } from "../../foundation/json.ts";
import { jobInvalid } from "../answer-form.ts";

/** A keyword whose value counts something; `fallback` where it is absent. */
export function count(schema: JsonObject, name: string, key: string, fallback: number): number {
  return countOrNone(schema, name, key) ?? fallback;
}

/** A keyword whose value counts something, if it is there. */
export function countOrNone(schema: JsonObject, name: string, key: string): number | undefined {
  const value = schema[name];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw jobInvalid(`${key}.${name}`, "it must be a whole number of at least 0");
}

/** A keyword whose value is a number, if it is there. */
export function finite(schema: JsonObject, name: string, key: string): number | undefined {
  const value = schema[name];
  if (value === undefined || typeof value === "number") return value;
  throw jobInvalid(`${key}.${name}`, "it must be a number");
}

/** A keyword whose value is a text, if it is there. */
export function text(schema: JsonObject, name: string, key: string): string | undefined {
  const value = schema[name];
  if (value === undefined || typeof value === "string") return value;
  throw jobInvalid(`${key}.${name}`, "it must be a text");
}

/** A keyword whose value is a list of texts; none where it is absent. */
export function texts(schema: JsonObject, name: string, key: string): string[] {
  const { [name]: list = [] } = schema;
  if (Array.isArray(list) && list.every((each) => typeof each === "string")) return list;
  throw jobInvalid(`${key}.${name}`, "it must be a list of texts");
}
