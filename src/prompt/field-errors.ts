import { SluiceError } from "../foundation/errors.ts";
import { nearest } from "../foundation/suggest.ts";
import type { TemplateSource } from "./jinja-syntax.ts";

/**
 * A row lacks what a template asks for.
 *
 * @param names fields that are there, one of which may be meant.
 */
export function missing(
  place: TemplateSource,
  path: string,
  names: Iterable<string> = [],
): SluiceError {
  const field = fieldOf(path);
  const meant = suggestion(field.slice(field.lastIndexOf(".") + 1), names);
  const problem =
    meant === undefined ? "uses it unguarded" : `uses it unguarded; did you mean ${meant}?`;
  const options = { field, ...hints(field) };
  return new SluiceError("VARIABLE_MISSING", `${place.name} ${problem}`, options);
}

// Any two of the shortest names are near each other.
function suggestion(name: string, names: Iterable<string>): string | undefined {
  return name.length < 3 ? undefined : nearest(name, names);
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
