import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import { wrongType } from "./field-errors.ts";
import { fieldReader } from "./field-path.ts";
import { cuttingFilters } from "./filters.ts";
import { fromRuntime } from "./jinja-library.ts";
import { scopeOf } from "./jinja-scope.ts";
import {
  filterNameOf,
  invalid,
  messageOf,
  parseTemplate,
  type TemplateSource,
} from "./jinja-syntax.ts";
import { StrictInterpreter } from "./strict-interpreter.ts";

/** A Jinja expression. It is parsed once and evaluated for each row. */
export interface Expression {
  /**
   * Its value for one row, as JSON. Names in `extra` hide the row's fields.
   *
   * @throws SluiceError `VARIABLE_MISSING`, `FIELD_TYPE`, `TEMPLATE_FAILED`, as `Template.render`.
   */
  evaluate(row: WrittenRow, extra?: WrittenRow): WrittenJson;
  /**
   * For a list whose elements a filter cut out of texts, such as `directions | sentences`: for each
   * element the number, from 1, of its text. Undefined for any other expression.
   */
  sourceNumbers?(row: WrittenRow): number[] | undefined;
  /** The names that it reads from the row or from `extra`. */
  readonly variables: readonly string[];
}

const statements = new Set(["If", "For", "Set", "Macro", "CallStatement", "FilterStatement"]);

/**
 * Compiles an expression as in `{{ }}` of a template, such as `directions | sentences`.
 *
 * @throws SluiceError `TEMPLATE_INVALID` if it is not a single expression.
 * @example
 * const steps = compileExpression("directions | sentences", { name: "prompts.steps.forEach" });
 * steps.evaluate({ directions: "Mix. Bake." }); // ["Mix.", "Bake."]
 */
export function compileExpression(source: string, place: TemplateSource): Expression {
  const program = parseTemplate(`{{ ${source} }}`, place);
  const [node, ...more] = program.body ?? [];
  if (node === undefined || more.length > 0 || statements.has(node.type)) {
    throw invalid(place, `${source} is not a single expression; write it without {{ }}`);
  }
  const scope = scopeOf(program);
  const reader = fieldReader(node, place);
  if (reader !== undefined) return { evaluate: reader, variables: scope.variables };
  const interpreter = new StrictInterpreter(scope, place);
  const cut = node.type === "FilterExpression" && cuttingFilters[filterNameOf(node) ?? ""];
  return {
    evaluate(row, extra) {
      const value = interpreter.over(node, row, extra);
      try {
        return fromRuntime(value);
      } catch (cause) {
        throw wrongType(place, `${source}: ${messageOf(cause)}`);
      }
    },
    ...(cut && {
      sourceNumbers(row) {
        const texts = fromRuntime(interpreter.over(node.operand!, row, undefined));
        if (!Array.isArray(texts)) return undefined;
        return texts.flatMap((text, at) => cut([text]).map(() => at + 1));
      },
    }),
    variables: scope.variables,
  };
}
