import { SluiceError } from "../foundation/errors.ts";
import type { TemplateSource } from "./jinja-syntax.ts";

/** A row lacks what a template asks for. */
export function missing(place: TemplateSource, path: string): SluiceError {
  const field = fieldOf(path);
  const options = { field, ...hints(field) };
  return new SluiceError("VARIABLE_MISSING", `${place.name} uses it unguarded`, options);
}

/** A field is there and cannot be used so. */
export function wrongType(place: TemplateSource, problem: string, path?: string): SluiceError {
  const field = path === undefined ? undefined : fieldOf(path);
  return new SluiceError("FIELD_TYPE", `${place.name}: ${problem}`, { field });
}

/** `row.a.b` is the field `a.b`. */
function fieldOf(path: string): string {
  return path.replace(/^row\.(?=.)/, "");
}

function hints(field: string): { hint?: string } {
  if (!/^(item|loop)\b/.test(field)) return {};
  return { hint: "`item` and `loop` are there only with forEach; else the row needs that field" };
}
