import { SluiceError } from "../../foundation/errors.ts";
import type { Grammar, GrammarNode } from "../../foundation/grammar.ts";
import type {
  Answer,
  AnswerStructure,
  InferenceRequest,
  InferenceResponse,
  Slot,
} from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { candidateSpans } from "../../foundation/spans.ts";
import { withinPatternTime } from "../../foundation/time-limit.ts";
import { type AnswerForm, sourceText } from "../answer-form.ts";
import { checkAnswer } from "./answer-check.ts";
import { answerJson, withDigits } from "./answer-json.ts";
import { readSchema } from "./read-schema.ts";
import { sentSchema } from "./sent-schema.ts";
import type { CopyShape, Shapes } from "./shape.ts";
import { constantsGrammar, shapeGrammar } from "./shape-grammar.ts";

/** A copying field is sent to a server with its possible spans as `enum`, up to this many. */
export const maxEnumeratedSpans = 500;

/** Problems of an answer that one complaint to the model names. */
export const maxShownProblems = 5;

/**
 * The form of an answer that is JSON of a schema.
 *
 * @param key in the job file, for messages: `prompts.recipe.schema`.
 * @throws SluiceError `JOB_INVALID`, which names the key; `TEMPLATE_INVALID` for a `copyFrom`.
 * @example
 * const form = compileStructuredForm({ type: "array", items: { type: "integer" } }, "schema");
 * form.ask({}, undefined).structure.schema; // { type: "array", items: { type: "integer" } }
 */
export function compileStructuredForm(schema: JsonObject, key: string): AnswerForm {
  const shapes = readSchema(schema, key);
  const { copies } = shapes;
  const grammar = shapeGrammar(shapes);
  const fixed: { structure: AnswerStructure } = Object.freeze({
    structure: Object.freeze({ schema: sentSchema(shapes, () => undefined), grammar }),
  });
  return {
    noun: "JSON",
    variables: copies.flatMap(({ source }) => source.variables),
    sources: (row, extra) =>
      copies.map(({ key: name, source, copyFrom }) =>
        sourceText(source.evaluate(row, extra), { name: `${name}.copyFrom` }, copyFrom),
      ),
    ask: (sources) =>
      copies.length === 0 ? fixed : { structure: copying(shapes, grammar, sources) },
    accept: (request, response) => accept(request, response, shapes),
    gather: (values) => [...values],
  };
}

/** The structure of one request, in which copying fields may hold spans of `sources`. */
function copying(shapes: Shapes, grammar: Grammar, sources: readonly string[]): AnswerStructure {
  const rules: Record<string, GrammarNode> = { ...grammar.rules };
  const values = new Map<string, readonly (string | null)[]>();
  const copies: Slot[] = [];
  let enumerated = 0;
  for (const [at, shape] of shapes.copies.entries()) {
    const slot = slotOf(shape, sources[at]!);
    const allowed = [shape.orElse, ...candidateSpans(slot)];
    copies.push(slot);
    rules[shape.key] = constantsGrammar(allowed);
    if (enumerated + allowed.length > maxEnumeratedSpans) continue;
    enumerated += allowed.length;
    values.set(shape.key, allowed);
  }
  const schema = sentSchema(shapes, ({ key }) => values.get(key));
  return { schema, grammar: { root: grammar.root, rules }, copies };
}

function slotOf({ key, maxWords, pattern, orElse }: CopyShape, source: string): Slot {
  const slot = { name: key, source, orElse: orElse ?? "", maxWords };
  return pattern === undefined ? slot : { ...slot, pattern };
}

function accept(
  { structure }: InferenceRequest,
  response: InferenceResponse,
  shapes: Shapes,
): InferenceResponse {
  const slots = new Map(structure?.copies?.map((slot) => [slot.name, slot]));
  const answers = response.answers.map((answer) => acceptOne(answer, shapes, slots));
  return { ...response, answers };
}

function acceptOne(answer: Answer, shapes: Shapes, slots: ReadonlyMap<string, Slot>): Answer {
  const json = answerJson(answer);
  const check = () => checkAnswer(json, shapes, slots);
  const { value, problems, spans } = withinPatternTime(shapes.patterns, check);
  if (problems.length > 0) {
    const shown = problems.slice(0, maxShownProblems).join("; ");
    const rest = problems.length - maxShownProblems;
    throw new SluiceError("ANSWER_INVALID", rest > 0 ? `${shown}; and ${rest} more` : shown);
  }
  const kept = { ...answer, value: withDigits(value, answer) };
  return shapes.copies.length === 0 ? kept : { ...kept, spans };
}
