import { SluiceError } from "../foundation/errors.ts";
import { nearest } from "../foundation/suggest.ts";
import type { TemplateSource } from "./jinja-syntax.ts";

/**
 * The error of a row without a field that a template needs.
 *
 * @param names existing fields, one of which may be meant.
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

// Very short names are all similar, so none is suggested.
function suggestion(name: string, names: Iterable<string>): string | undefined {
  return name.length < 3 ? undefined : nearest(name, names);
}

/** The error of a field whose value cannot be used as the template does. */
export function wrongType(place: TemplateSource, problem: string, path?: string): SluiceError {
  const field = path === undefined ? undefined : fieldOf(path);
  return new SluiceError("FIELD_TYPE", `${place.name}: ${problem}`, { field });
}

/** The field in a path: `a.b` for `row.a.b`. */
function fieldOf(path: string): string {
  return path.replace(/^row\.(?=.)/, "");
}

function hints(field: string): { hint?: string } {
  if (!/^(item|loop)\b/.test(field)) return {};
  return { hint: "`item` and `loop` are there only with forEach; else the row needs that field" };
}
