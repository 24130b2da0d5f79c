import type { JsonObject } from "../../foundation/json.ts";
import { jobInvalid } from "../answer-form.ts";

/** The value of a keyword that is a count; `fallback` if it is absent. */
export function count(schema: JsonObject, name: string, key: string, fallback: number): number {
  return countOrNone(schema, name, key) ?? fallback;
}

/** The value of a keyword that is a count; undefined if it is absent. */
export function countOrNone(schema: JsonObject, name: string, key: string): number | undefined {
  const value = schema[name];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw jobInvalid(`${key}.${name}`, "it must be a whole number of at least 0");
}

/** The value of a keyword that is a number; undefined if it is absent. */
export function finite(schema: JsonObject, name: string, key: string): number | undefined {
  const value = schema[name];
  if (value === undefined || typeof value === "number") return value;
  throw jobInvalid(`${key}.${name}`, "it must be a number");
}

/** The value of a keyword that is a text; undefined if it is absent. */
export function text(schema: JsonObject, name: string, key: string): string | undefined {
  const value = schema[name];
  if (value === undefined || typeof value === "string") return value;
  throw jobInvalid(`${key}.${name}`, "it must be a text");
}

/** The value of a keyword that is a list of texts; empty if it is absent. */
export function texts(schema: JsonObject, name: string, key: string): string[] {
  const { [name]: list = [] } = schema;
  if (Array.isArray(list) && list.every((each) => typeof each === "string")) return list;
  throw jobInvalid(`${key}.${name}`, "it must be a list of texts");
}
