import { z } from "zod";
import { asSluiceError, locatedError, SluiceError } from "../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../foundation/json.ts";
import { shown } from "../foundation/suggest.ts";
import { withinPatternTime } from "../foundation/time-limit.ts";
import type { InputRow } from "./row.ts";

/** What is wrong with a row, or undefined if the row fits. */
export type RowCheck = (row: InputRow) => SluiceError | undefined;

/**
 * Makes a check of rows against a JSON Schema. Whole numbers may have any size.
 *
 * @throws Error if it is not a schema; the message says why.
 * @example
 * rowCheck({ required: ["id"] })({ index: 0, file: "a.csv", line: 2, raw: "{}", value: {} })?.code;
 * // "ROW_SCHEMA"
 */
export function rowCheck(schema: JsonObject): RowCheck {
  if (schema.type !== undefined && schema.type !== "object") throw new Error("a row is an object");
  const checked = z.fromJSONSchema(anySize({ type: "object", ...schema }) as JsonObject);
  const isMatching = /"(pattern|patternProperties|format)":/.test(JSON.stringify(schema));
  const patterns = isMatching ? ["input.schema"] : [];
  return ({ value, file, line }) => {
    if (value === undefined) return undefined;
    let issue: z.core.$ZodIssue | undefined;
    try {
      issue = withinPatternTime(patterns, () => checked.safeParse(value)).error?.issues[0];
    } catch (thrown) {
      return locatedError(asSluiceError(thrown), { file, line });
    }
    if (!issue) return undefined;
    const field = issue.path.join(".");
    const found = valueAt(value, issue.path);
    const detail = found === undefined ? "it is missing" : `${told(issue)}: ${shown(found)}`;
    return new SluiceError("ROW_SCHEMA", detail, { file, line, ...(field && { field }) });
  };
}

function valueAt(value: Json, path: readonly PropertyKey[]): Json | undefined {
  let found: unknown = value;
  for (const key of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Record<PropertyKey, unknown>)[key];
  }
  return found as Json;
}

function told(issue: z.core.$ZodIssue): string {
  if (issue.code === "not_multiple_of" && issue.divisor === 1) return "expected a whole number";
  return issue.message.replace(/^Invalid (input|option): /, "");
}

/** Why a value cannot be a JSON Schema of rows; undefined if it can. */
export function schemaFault(schema: JsonObject): string | undefined {
  try {
    rowCheck(schema);
    return undefined;
  } catch (error) {
    return `is not a JSON Schema of a row: ${(error as Error).message}`;
  }
}

/** Keywords whose values are data, not schemas. */
const plainValues = new Set(["enum", "const", "default", "examples"]);

/** The schema with whole numbers beyond 2^53 allowed: in rows these are texts with all digits. */
function anySize(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(anySize);
  if (!isJsonObject(schema)) return schema;
  const entries = Object.entries(schema).map(([key, value]): [string, Json] => [
    key,
    plainValues.has(key) ? value : anySize(value),
  ]);
  const copy = Object.fromEntries(entries);
  const types = Array.isArray(copy.type) ? copy.type : [copy.type];
  if (!types.includes("integer")) return copy;
  const type = types.map((each) => (each === "integer" ? "number" : each!));
  copy.type = type.length === 1 ? type[0]! : type;
  if (!types.includes("number")) copy.multipleOf ??= 1;
  return copy;
}
