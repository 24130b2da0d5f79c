import { SluiceError } from "../../foundation/errors.ts";
import type {
  AnswerStructure,
  InferenceRequest,
  InferenceResponse,
  SamplingParameters,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { type AnswerForm, withComplaint } from "../answer-form.ts";
import type { PromptSet } from "../prompt-set.ts";
import type { RowRequest } from "../row-request.ts";
import { type BatchLine, readBatchLine } from "./batch-line.ts";
import type { TakenOfChats } from "./body-messages.ts";
import { unsupported, withoutTools } from "./request-faults.ts";
import { formOf, MadeOnce, type ResponseFormat } from "./response-forms.ts";
import { ToolForms } from "./tool-forms.ts";

export interface BatchPromptSetOptions {
  /** The job's parameters, for what a body does not set. */
  parameters: SamplingParameters;
  /** Models that a body may name; `*` = any. */
  models: readonly string[];
  /** Whether the engine writes texts, and gives vectors of texts. */
  gives: { text: boolean; embedding: boolean };
  /** What the engine takes of chats beside text. */
  taken: TakenOfChats;
  /** True if the engine enforces the arguments of calls. */
  enforcesArguments: boolean;
  /** Names of parameters that the engine does not support, such as `generation.topK`. */
  unsupportedBy(parameters: SamplingParameters): readonly string[];
}

/** Prompts of a job whose rows are requests: lines of OpenAI batch files. */
export class BatchPromptSet implements PromptSet {
  readonly names = ["request"];
  readonly #options: BatchPromptSetOptions;
  readonly #forms = new MadeOnce<AnswerForm>();
  readonly #toolForms = new ToolForms();
  /** The answer form for a request's structure. */
  readonly #formOf = new WeakMap<AnswerStructure, AnswerForm>();
  #changesText = "{}";
  /** Parameters of the previous line, because lines of one file usually set the same. */
  #parameters: SamplingParameters;

  constructor(options: BatchPromptSetOptions) {
    this.#options = options;
    this.#parameters = Object.freeze({ ...options.parameters });
  }

  /** @throws SluiceError the errors of `readBatchLine`, and `MODEL_DIFFERS`. */
  requests(row: JsonObject, index: number): RowRequest[] {
    const line = readBatchLine(row, this.#options.taken);
    this.#assertGiven(line);
    this.#assertModel(line);
    const origin = { index, promptName: "request" };
    const request: RowRequest = { origin, parameters: this.#parametersOf(line) };
    if (line.format) this.#askForm(request, line.format, row);
    if (line.tools) {
      if (!this.#options.taken.callsTools) throw unsupported("body.tools", withoutTools);
      Object.assign(request, line.tools);
      if (this.#options.enforcesArguments) {
        request.argumentGrammars = this.#toolForms.ask(line.tools.tools ?? [], row);
      }
    }
    if (line.messages) return [{ ...request, messages: line.messages }];
    const whole = line.kind === "embedding" ? { ...request, embed: true } : request;
    const [only, ...rest] = line.prompts!;
    if (rest.length === 0) return [{ ...whole, prompt: only! }];
    return line.prompts!.map((prompt, element) => {
      return { ...whole, prompt, origin: { ...origin, element } };
    });
  }

  ready(requests: readonly RowRequest[], _responses: unknown, at: number): RowRequest {
    return requests[at]!;
  }

  /**
   * @throws SluiceError `PARAMETER_UNSUPPORTED` if the engine left out something that was
   *   requested, `ANSWER_INVALID` if the answer, or the arguments of a call, are not JSON of the
   *   schema.
   */
  accept(request: InferenceRequest, response: InferenceResponse): InferenceResponse {
    const { numReturnSequences = 1, logprobs = 0 } = request.parameters;
    const { answers } = response;
    if (request.embed) return response;
    if (answers.length !== numReturnSequences) {
      throw unsupported("body.n", `the engine gave ${answers.length} of ${numReturnSequences}`);
    }
    if (logprobs > 0 && answers.some((answer) => answer.logprobs === undefined)) {
      throw unsupported("body.logprobs", "the engine gave none");
    }
    for (const answer of answers) this.#toolForms.check(request, answer);
    const form = request.structure && this.#formOf.get(request.structure);
    // An answer that calls tools is not a final one, so it need not have the form.
    const isCall = answers.some(({ toolCalls }) => toolCalls !== undefined);
    if (form === undefined || isCall) return response;
    return inJson(form.accept(request, response));
  }

  reask<R extends InferenceRequest>(request: R, badText: string, problem: string): R {
    const noun = (request.structure && this.#formOf.get(request.structure)?.noun) ?? "answer";
    return withComplaint(request, badText, problem, noun);
  }

  /** The text of the answer, or a list of texts; for an embedding, its vectors. */
  answer(
    _requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    const answers = responses.flatMap((response) => response?.answers ?? []);
    const values = answers.map(({ value, text, toolCalls }) =>
      toolCalls ? { content: text, tool_calls: [...toolCalls] } : (value ?? text),
    );
    return values.length === 1 ? values[0]! : values;
  }

  partialAnswer(): Json {
    return null;
  }

  #askForm(request: InferenceRequest, format: ResponseFormat, row: JsonObject): void {
    const form = this.#forms.of(format, formOf);
    Object.assign(request, form.ask(form.sources(row, undefined)));
    if (request.structure) this.#formOf.set(request.structure, form);
  }

  #assertGiven({ kind }: BatchLine): void {
    const { text, embedding } = this.#options.gives;
    if (kind === "embedding" ? embedding : text) return;
    const detail =
      kind === "embedding"
        ? "/v1/embeddings; this engine gives no vectors, engine llama does, and openai"
        : "this model gives vectors, by /v1/embeddings, and writes no text";
    throw new SluiceError("URL_UNSUPPORTED", detail, { field: "url" });
  }

  #assertModel({ model }: BatchLine): void {
    const { models } = this.#options;
    if (model === undefined || models.includes("*") || models.includes(model)) return;
    const detail = `the line names ${model}, and this run has ${models.join(" and ")}`;
    throw new SluiceError("MODEL_DIFFERS", detail, { field: "body.model" });
  }

  #parametersOf({ parameters: changes }: BatchLine): SamplingParameters {
    const text = JSON.stringify(changes);
    if (text === this.#changesText) return this.#parameters;
    const parameters = merged(this.#options.parameters, changes);
    const dropped = this.#options.unsupportedBy(parameters);
    if (dropped.length > 0) throw unsupported("body", `the engine cannot do ${dropped.join(", ")}`);
    this.#changesText = text;
    this.#parameters = Object.freeze(parameters);
    return this.#parameters;
  }
}

/** Only the JSON, if the model wrote it into a fenced code block. */
function inJson(response: InferenceResponse): InferenceResponse {
  const answers = response.answers.map((answer) =>
    answer.text.trimStart().startsWith("`")
      ? { ...answer, text: JSON.stringify(answer.value) }
      : answer,
  );
  return { ...response, answers };
}

function merged(job: SamplingParameters, changes: Partial<SamplingParameters>): SamplingParameters {
  const explicit = [...new Set([...(job.explicit ?? []), ...Object.keys(changes)])];
  const { maxLength, ...parameters } = { ...job, ...changes, explicit };
  // A limit in the line replaces the job's limit, whichever of the two kinds they are.
  return maxLength === undefined || changes.maxNewTokens !== undefined
    ? parameters
    : { ...parameters, maxLength };
}
