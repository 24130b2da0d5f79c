import { SluiceError } from "../../foundation/errors.ts";
import type { Grammar } from "../../foundation/grammar.ts";
import type { Answer, AnswerStructure, InferenceRequest } from "../../foundation/inference.ts";
import { isJsonObject, type JsonObject } from "../../foundation/json.ts";
import type { AnswerForm } from "../answer-form.ts";
import { anyObjectForm } from "../structure/any-object.ts";
import { invalid } from "./request-faults.ts";
import { MadeOnce, schemaForm } from "./response-forms.ts";

type ArgumentGrammars = Readonly<Record<string, Grammar>>;

/** What the arguments of a tool must be, for one request. */
interface AskedArguments {
  form: AnswerForm;
  structure: AnswerStructure;
}

/** The forms of the arguments of tools, for engines that enforce them. */
export class ToolForms {
  readonly #forms = new MadeOnce<ReadonlyMap<string, AnswerForm>>();
  readonly #asked = new WeakMap<ArgumentGrammars, ReadonlyMap<string, AskedArguments>>();

  /**
   * The grammars of the arguments, by the names of the tools.
   *
   * @param row that arguments may copy from.
   * @throws SluiceError `PARAMETER_INVALID` for `parameters` other than a schema,
   *   `PARAMETER_UNSUPPORTED` for a schema that is not supported, if the tool is `strict`.
   */
  ask(tools: readonly JsonObject[], row: JsonObject): ArgumentGrammars {
    const forms = this.#forms.of([...tools], () => new Map(tools.map(formOfTool)));
    const asked = new Map<string, AskedArguments>();
    for (const [name, form] of forms) {
      const { structure } = form.ask(form.sources(row, undefined));
      asked.set(name, { form, structure: structure! });
    }
    const grammars = Object.fromEntries(
      Array.from(asked, ([name, { structure }]) => [name, structure.grammar] as const),
    );
    this.#asked.set(grammars, asked);
    return grammars;
  }

  /** @throws SluiceError `ANSWER_INVALID` if arguments of a call are not what its tool takes. */
  check(request: InferenceRequest, answer: Answer): void {
    const asked = request.argumentGrammars && this.#asked.get(request.argumentGrammars);
    for (const { function: called } of answer.toolCalls ?? []) {
      const { form, structure } = asked?.get(called.name) ?? {};
      const written = { ...answer, text: called.arguments };
      try {
        form?.accept({ ...request, structure: structure! }, responseOf(written));
      } catch (thrown) {
        if (!(thrown instanceof SluiceError) || thrown.code !== "ANSWER_INVALID") throw thrown;
        const problem = `the arguments of ${called.name}: ${thrown.message}`;
        throw new SluiceError("ANSWER_INVALID", problem, { cause: thrown });
      }
    }
  }
}

function responseOf(answer: Answer) {
  const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  return { answers: [answer], usage, seconds: 0 };
}

function formOfTool(tool: JsonObject, at: number): [name: string, form: AnswerForm] {
  const { name, parameters, strict } = tool.function as JsonObject;
  const field = `body.tools[${at}].function.parameters`;
  // Without parameters, a tool takes an empty object.
  const schema = parameters ?? { type: "object" };
  if (!isJsonObject(schema)) throw invalid(field, "a schema", schema);
  return [name as string, strict === true ? schemaForm(schema, field) : leniently(schema, field)];
}

/** Any object for a schema that is not supported: tools need not be strict. */
function leniently(schema: JsonObject, field: string): AnswerForm {
  try {
    return schemaForm(schema, field);
  } catch (error) {
    if (error instanceof SluiceError) return anyObjectForm();
    throw error;
  }
}
