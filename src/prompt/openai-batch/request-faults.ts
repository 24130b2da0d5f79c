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
  "no tools are called: take them out, and ask for their arguments by response_format json_schema";

const shownCharacters = 60;

/** A value in messages, cut where it is long. */
export function shown(value: Json): string {
  const text = JSON.stringify(value);
  return text.length <= shownCharacters ? text : `${text.slice(0, shownCharacters)}…`;
}
