import { SluiceError } from "../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../foundation/json.ts";
import { jsonResult } from "../foundation/json-result.ts";

/**
 * Values of the program as rows: what is no object becomes `{data: value}`. They are copies: what
 * the program does to its own afterwards does not change them.
 *
 * @throws SluiceError `USAGE`, naming the row and the place in it, where JSON has no such value.
 */
export function givenRows(values: Iterable<unknown>): JsonObject[] {
  return Array.from(values, (value, at) => {
    const json = jsonResult(value, (problem) => notJson(at, problem));
    return isJsonObject(json) ? json : { data: json };
  });
}

function notJson(at: number, problem: string): SluiceError {
  return new SluiceError("USAGE", `dataset.from: value ${at}${problem}`, {
    hint: "rows are JSON: give a list for a Set, an object for a Map, text or a number for a bigint",
  });
}
