import { isDeepStrictEqual } from "node:util";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { wholePattern } from "../../foundation/spans.ts";
import { jobInvalid } from "../answer-form.ts";
import { compileExpression } from "../expression.ts";
import { countOrNone, text } from "./keyword-values.ts";
import { type CopyShape, maxSlotWords, slotWords } from "./shape.ts";

/**
 * Reads the schema of a copying field: `copyFrom`, `maxWords`, `pattern` and `orElse`.
 *
 * @throws SluiceError `JOB_INVALID`, which names the key; `TEMPLATE_INVALID` for `copyFrom`.
 */
export function copyShape(schema: JsonObject, types: readonly string[], key: string): CopyShape {
  const isNullable = types.includes("null");
  if (!types.includes("string") || types.some((type) => type !== "string" && type !== "null")) {
    throw jobInvalid(`${key}.copyFrom`, "what copies is of type string, or [string, null]");
  }
  const stray = ["minLength", "maxLength"].find((name) => schema[name] !== undefined);
  if (stray) throw jobInvalid(`${key}.${stray}`, `${stray} cannot stand beside copyFrom`);
  const copyFrom = text(schema, "copyFrom", key)!;
  const pattern = text(schema, "pattern", key);
  if (pattern !== undefined) assertPattern(pattern, `${key}.pattern`);
  const maxWords = countOrNone(schema, "maxWords", key) ?? slotWords;
  if (maxWords < 1 || maxWords > maxSlotWords) {
    throw jobInvalid(`${key}.maxWords`, `it must be from 1 to ${maxSlotWords}`);
  }
  const source = compileExpression(copyFrom, { name: `${key}.copyFrom` });
  const orElse = orElseOf(schema, isNullable, key);
  return { kind: "copy", key, copyFrom, source, maxWords, pattern, orElse, isNullable };
}

/**
 * Turns an `anyOf` of a copying text and null (zod's `nullable`) into one schema with two types.
 * Any other schema is returned as it is.
 */
export function withNullInside(schema: JsonObject): JsonObject {
  const { anyOf, ...outer } = schema;
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema;
  const isNull = (each: Json) => isDeepStrictEqual(each, { type: "null" });
  const inner = anyOf.find((each) => !isNull(each));
  if (!anyOf.some(isNull) || !isJsonObject(inner) || inner.type !== "string") return schema;
  const copies = outer.copyFrom !== undefined || inner.copyFrom !== undefined;
  return copies ? { ...inner, ...outer, type: ["string", "null"] } : schema;
}

function orElseOf(schema: JsonObject, isNullable: boolean, key: string): string | null {
  const { orElse = isNullable ? null : "" } = schema;
  if (typeof orElse === "string" || (orElse === null && isNullable)) return orElse;
  const problem = isNullable ? "it must be a text or null" : "it must be a text, as the type is";
  throw jobInvalid(`${key}.orElse`, problem);
}

function assertPattern(pattern: string, key: string): void {
  try {
    wholePattern(pattern);
  } catch (cause) {
    throw jobInvalid(key, (cause as Error).message);
  }
}
