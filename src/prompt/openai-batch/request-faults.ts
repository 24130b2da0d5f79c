import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";

/** The line lacks a field that every such line must have. */
export function missing(field: string): SluiceError {
  return new SluiceError("PARAMETER_MISSING", "", { field });
}

/** A field has a value that it must not have. */
export function invalid(field: string, must: string, value: Json): SluiceError {
  return new SluiceError("PARAMETER_INVALID", `it must be ${must}, not ${shown(value)}`, { field });
}

/** A field asks for what would be dropped; the line fails rather than be answered otherwise. */
export function unsupported(field: string, detail = ""): SluiceError {
  return new SluiceError("PARAMETER_UNSUPPORTED", detail, { field });
}

/** What a line with tools is told; `response_format` gets what most of them are for. */
export const withoutTools =
  "no tools are called: ask a server by engine openai, or take them out, and ask for their " +
  "arguments by response_format json_schema";

/** The same of a conversation that goes on from calls, which no engine is handed. */
export const withoutToolMessages =
  "calls in earlier messages are not taken: write what they gave as text of the user";

const shownCharacters = 60;

/** A value in messages, cut where it is long. */
export function shown(value: Json): string {
  const text = JSON.stringify(value);
  return text.length <= shownCharacters ? text : `${text.slice(0, shownCharacters)}…`;
}
