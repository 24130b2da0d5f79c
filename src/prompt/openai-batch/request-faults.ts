import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";
import { shown } from "../../foundation/suggest.ts";

/** The error of a line that lacks a required field. */
export function missing(field: string): SluiceError {
  return new SluiceError("PARAMETER_MISSING", "", { field });
}

/** The error of a field with an invalid value. */
export function invalid(field: string, must: string, value: Json): SluiceError {
  return new SluiceError("PARAMETER_INVALID", `it must be ${must}, not ${shown(value)}`, { field });
}

/** The error of a field that is not supported: better no answer than one to another request. */
export function unsupported(field: string, detail: string): SluiceError {
  return new SluiceError("PARAMETER_UNSUPPORTED", detail, { field });
}

/** Message for a line with tools; `response_format` serves most of their purposes. */
export const withoutTools =
  "no tools are called: ask a server by engine openai, or take them out, and ask for their " +
  "arguments by response_format json_schema";

/** Message for a conversation that continues after tool calls, for engines that call none. */
export const withoutToolMessages =
  "calls in earlier messages are not taken: ask a server by engine openai, or write what they " +
  "gave as text of the user";
