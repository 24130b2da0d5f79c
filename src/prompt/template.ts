import { SluiceError } from "../foundation/errors.ts";
import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import { type FieldReader, fieldReader } from "./field-path.ts";
import type { JinjaNode } from "./jinja-library.ts";
import { scopeOf } from "./jinja-scope.ts";
import { messageOf, parseTemplate, type TemplateSource } from "./jinja-syntax.ts";
import { StrictInterpreter } from "./strict-interpreter.ts";
import { printValue } from "./value-text.ts";

/** A prompt template. It is parsed once and rendered for each row. */
export interface Template {
  /**
   * The text for one row. Names in `extra` (`item`, `loop`) hide the row's fields.
   *
   * @throws SluiceError `VARIABLE_MISSING` if the row lacks a field that the template does not
   *   guard, `FIELD_TYPE` if a field has a type that the template cannot use, `TEMPLATE_FAILED` for
   *   any other failure.
   */
  render(row: WrittenRow, extra?: WrittenRow): string;
  /** The names that it reads from the row or from `extra`; `row` is the whole row. */
  readonly variables: readonly string[];
}

/**
 * Compiles a Jinja template. The row's fields are variables. `row` is the row itself, for fields
 * whose names are not words: `{{ row["Cooking time"] }}`. Null is a value, printed as nothing.
 *
 * A template of text and plain fields (`{{ a }}`, `{{ a.b[0] }}`) is rendered without an
 * interpreter.
 *
 * @throws SluiceError `TEMPLATE_INVALID` with line and column.
 * @example
 * const template = compileTemplate("Sum up: {{ text }}", { name: "prompt" });
 * template.render({ text: "It rained." }); // "Sum up: It rained."
 */
export function compileTemplate(source: string, place: TemplateSource): Template {
  const program = parseTemplate(source, place);
  const scope = scopeOf(program);
  const plain = compilePlain(program, place);
  if (plain !== undefined) return { render: plain, variables: scope.variables };
  const interpreter = new StrictInterpreter(scope, place);
  return {
    render: (row, extra) => interpreter.over(program, row, extra).value as string,
    variables: scope.variables,
  };
}

/** The render function of a template of text and plain fields; undefined for any other. */
function compilePlain(program: JinjaNode, place: TemplateSource): Template["render"] | undefined {
  const readers: FieldReader[] = [];
  /** The parts alternate: texts[0], field 0, texts[1], field 1, …; the last one is a text. */
  const texts = [""];
  for (const node of program.body ?? []) {
    if (node.type === "Comment") continue;
    if (node.type === "StringLiteral") {
      texts[texts.length - 1] += node.value as string;
      continue;
    }
    const reader = fieldReader(node, place);
    if (reader === undefined) return undefined;
    readers.push(reader);
    texts.push("");
  }
  return (row, extra) => {
    let text = texts[0]!;
    for (let field = 0; field < readers.length; field++) {
      const value = readers[field]!(row, extra);
      text += typeof value === "string" ? value : printed(value, place);
      text += texts[field + 1]!;
    }
    return text;
  };
}

function printed(value: WrittenJson, place: TemplateSource): string {
  try {
    return printValue(value);
  } catch (cause) {
    throw new SluiceError("TEMPLATE_FAILED", `${place.name}: ${messageOf(cause)}`, { cause });
  }
}
