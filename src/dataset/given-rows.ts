import { SluiceError } from "../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../foundation/json.ts";
import { typedResult } from "../foundation/json-result.ts";
import { isTyped, toWire } from "../foundation/typed-json.ts";

/**
 * Values of the program as rows; a value that is not an object becomes `{data: value}`. They are
 * copies: later changes of the program's own values do not reach them. Dates and typed arrays are
 * as `toWire` has them.
 *
 * @throws SluiceError `USAGE`, naming the row and the place in it, where JSON has no such value.
 */
export function givenRows(values: Iterable<unknown>): JsonObject[] {
  return Array.from(values, (value, at) => {
    const typed = typedResult(value, (problem) => notJson(at, problem));
    const isRow = isJsonObject(typed) && !isTyped(typed);
    return toWire(isRow ? typed : { data: typed }) as JsonObject;
  });
}

function notJson(at: number, problem: string): SluiceError {
  return new SluiceError("USAGE", `dataset.from: value ${at}${problem}`, {
    hint: "give a list for a Set, and an object for a Map",
  });
}
