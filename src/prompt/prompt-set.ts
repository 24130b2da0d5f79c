import { SluiceError } from "../foundation/errors.ts";
import { writtenRow } from "../foundation/exact-json.ts";
import type {
  InferenceRequest,
  InferenceResponse,
  SamplingParameters,
} from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { type AnswerForm, jobInvalid, withComplaint } from "./answer-form.ts";
import { CompiledPrompt, type PromptToCompile } from "./compiled-prompt.ts";
import { type RequestKeeper, RowKeeper } from "./prepared-row.ts";
import type { PromptOptions } from "./prompt-options.ts";
import type { RowRequest } from "./row-request.ts";

/** The prompts of a job: they turn rows into requests, and responses into answers. */
export interface PromptSet {
  /** Names of the prompts, in job order; the only prompt of `prompt:` is called `prompt`. */
  readonly names: readonly string[];
  /**
   * Requests of one row: prompts in job order, elements of a `forEach` in list order. Empty if the
   * list of every prompt is empty; the row's answer is then `answer([], [])`.
   *
   * @param dataset name of the row's dataset, if the job has datasets.
   * @param raw the JSON text of the row; prompts then show its numbers as written there.
   * @throws SluiceError of scope `row`: `VARIABLE_MISSING`, `FIELD_TYPE`, `TEMPLATE_FAILED`,
   *   `ELEMENTS_TOO_MANY`.
   */
  requests(row: JsonObject, index: number, dataset?: string, raw?: string): RowRequest[];
  /**
   * The request at that index, ready to be sent. A request that continues after another one of the
   * row (`after`) gets its words only now, from the answers.
   */
  ready(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
    at: number,
  ): RowRequest;
  /**
   * Checks a response against the form that its request demanded, and adds `value` to each answer.
   * A response to a request without a form is returned as it is.
   *
   * @throws SluiceError `ANSWER_INVALID`, whose message says what is wrong.
   */
  accept(request: InferenceRequest, response: InferenceResponse): InferenceResponse;
  /**
   * The request with its bad answer and the complaint as further messages. A completion has no
   * place for them and is returned as it is.
   */
  reask<R extends InferenceRequest>(request: R, badText: string, problem: string): R;
  /**
   * The value for `output.field`, from all requests of a row and their accepted responses: the
   * answer of `prompt`, or an object of the answers of `prompts` by name.
   */
  answer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json;
  /** As `answer`, for a row that failed: a missing answer is null. */
  partialAnswer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json;
  /** Stores requests for other runs; absent if nothing is rendered. */
  readonly keeper?: RequestKeeper | undefined;
}

/** The part of a job that is needed to compile its prompts. */
export interface PromptSetSpec {
  prompt?: PromptOptions;
  /** The schema of `prompt`, if `prompt` itself has none. */
  schema?: JsonObject | undefined;
  prompts?: Record<string, PromptOptions>;
  generation: SamplingParameters & { returnFullText?: boolean };
}

/**
 * Compiles the prompts of a job, once for all rows.
 *
 * @throws SluiceError `JOB_INVALID` or `TEMPLATE_INVALID`, which names the key.
 * @example
 * const set = compilePromptSet({ prompt: promptOptions.parse("Sum up: {{ text }}"), generation });
 * set.requests({ text: "It rained." }, 0)[0].messages;
 * // [{ role: "user", content: "Sum up: It rained." }]
 */
export function compilePromptSet(spec: PromptSetSpec): PromptSet {
  const { prompt, schema, prompts = {}, generation } = spec;
  if (prompt !== undefined) {
    const only = { name: "prompt", key: "prompt", options: prompt, schema, generation };
    return new CompiledPromptSet([compileOnePrompt(only)], "only");
  }
  const compile = promptCompiler(generation);
  const named = Object.entries(prompts);
  if (named.length === 0) throw jobInvalid("prompts", "there is no prompt");
  const compiled = named.map(([name, options]) => compile(name, `prompts.${name}`, options));
  return new CompiledPromptSet(compiled, "all");
}

/** A single prompt, with its key in the job file. */
export interface OnePromptSpec extends Pick<PromptSetSpec, "schema" | "generation"> {
  name: string;
  /** For messages, such as `dataset.0`. */
  key: string;
  options: PromptOptions;
}

/** Compiles a prompt whose answer is the answer of a row. */
export function compileOnePrompt(spec: OnePromptSpec): CompiledPrompt {
  const { name, key, options, schema, generation } = spec;
  return promptCompiler(generation)(name, key, withSchema(options, schema));
}

/** The prompts of several datasets; a row gets the prompt with the name of its dataset. */
export function promptsByDataset(prompts: readonly CompiledPrompt[]): PromptSet {
  return new CompiledPromptSet(prompts, "ofDataset");
}

function promptCompiler({ returnFullText = false, ...parameters }: PromptSetSpec["generation"]) {
  const shared = Object.freeze({ ...parameters });
  return (name: string, key: string, options: PromptToCompile): CompiledPrompt => {
    const prompt = new CompiledPrompt(name, key, options, shared, returnFullText);
    if (returnFullText) refuseFullText(prompt, key);
    if (parameters.prependBos !== undefined) refuseBeginning(prompt, key);
    return prompt;
  };
}

function withSchema(prompt: PromptOptions, schema: JsonObject | undefined): PromptToCompile {
  return schema === undefined ? prompt : { ...prompt, schema, schemaKey: "schema" };
}

// The model's chat template decides how a chat begins, so `prependBos` has no effect there.
function refuseBeginning(prompt: CompiledPrompt, key: string): void {
  if (prompt.api === "completion") return;
  const problem = `${key} is a chat, which begins as its template says; set api: completion`;
  throw jobInvalid("generation.prependBos", problem);
}

function refuseFullText(prompt: CompiledPrompt, key: string): void {
  if (prompt.api !== "completion") {
    const problem = `${key} is a chat, not a prompt with its continuation; set api: completion`;
    throw jobInvalid("generation.returnFullText", problem);
  }
  if (prompt.form !== undefined) {
    const problem = `${key} has answer or schema, which give no text`;
    throw jobInvalid("generation.returnFullText", problem);
  }
}

class CompiledPromptSet implements PromptSet {
  readonly keeper: RequestKeeper;
  readonly names: readonly string[];
  readonly #prompts: readonly CompiledPrompt[];
  readonly #byName: ReadonlyMap<string, CompiledPrompt>;
  readonly #which: "only" | "ofDataset" | "all";
  readonly #fields: readonly string[] | undefined;

  /** @param which of the prompts a row gets. */
  constructor(prompts: readonly CompiledPrompt[], which: "only" | "ofDataset" | "all") {
    this.names = which === "ofDataset" ? ["prompt"] : prompts.map((prompt) => prompt.name);
    this.#prompts = prompts;
    this.#byName = new Map(prompts.map((prompt) => [prompt.name, prompt]));
    this.#which = which;
    const fields = prompts.map((prompt) => prompt.fields);
    this.#fields = fields.includes(undefined) ? undefined : [...new Set(fields.flat() as string[])];
    this.keeper = new RowKeeper(this.#byName);
  }

  requests(value: JsonObject, index: number, dataset?: string, raw?: string): RowRequest[] {
    const single = this.#singleOf(dataset);
    const row =
      raw === undefined ? value : writtenRow(value, raw, single ? single.fields : this.#fields);
    // The usual case: a literal array takes much less memory than one that grew.
    if (single?.isPlain) return [single.plainRequest(row, index)];
    const requests: RowRequest[] = [];
    for (const prompt of single ? [single] : this.#prompts) {
      prompt.addRequests(row, index, requests);
    }
    return requests;
  }

  /** The only prompt of a row; undefined if rows have several. */
  #singleOf(dataset: string | undefined): CompiledPrompt | undefined {
    if (this.#which === "all") return undefined;
    if (this.#which === "only") return this.#prompts[0];
    const own = this.#byName.get(dataset ?? "");
    if (own !== undefined) return own;
    throw new SluiceError(
      "RUN_DAMAGED",
      `a row is of dataset ${dataset}, which the job does not have`,
    );
  }

  ready(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
    at: number,
  ): RowRequest {
    const request = requests[at]!;
    if (request.origin.after === undefined) return request;
    const answers: string[] = [];
    for (let before: number | undefined = request.origin.after; before !== undefined; ) {
      answers.unshift(responses[before]?.answers[0]?.text ?? "");
      before = requests[before]!.origin.after;
    }
    this.#byName.get(request.origin.promptName)!.goOn(request, answers);
    return request;
  }

  accept(request: InferenceRequest, response: InferenceResponse): InferenceResponse {
    if (request.slottedLine === undefined && request.structure === undefined) return response;
    return this.#formOf(request)?.accept(request, response) ?? response;
  }

  #formOf({ origin }: InferenceRequest): AnswerForm | undefined {
    return origin && this.#byName.get(origin.promptName)?.form;
  }

  reask<R extends InferenceRequest>(request: R, badText: string, problem: string): R {
    const noun = this.#formOf(request)?.noun ?? "answer";
    return withComplaint(request, badText, problem, noun);
  }

  answer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    const single = this.#singleOf(requests[0]?.origin.promptName);
    if (single !== undefined) return single.answer(requests, responses);
    const entries = this.#prompts.map((prompt) => {
      const own = requests.flatMap((request, at) =>
        request.origin.promptName === prompt.name ? at : [],
      );
      const answer = prompt.answer(
        own.map((at) => requests[at]!),
        own.map((at) => responses[at]),
      );
      return [prompt.name, answer] as const;
    });
    return Object.fromEntries(entries);
  }

  partialAnswer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    if (requests.length > 0) return this.answer(requests, responses);
    // The row failed before any request: even whether a list is empty is unknown.
    return this.#which === "all"
      ? Object.fromEntries(this.names.map((name) => [name, null]))
      : null;
  }
}

/** A prompt set with some of its members replaced. */
export function changedPromptSet(promptSet: PromptSet, changes: Partial<PromptSet>): PromptSet {
  return {
    names: promptSet.names,
    keeper: promptSet.keeper,
    requests: promptSet.requests.bind(promptSet),
    ready: promptSet.ready.bind(promptSet),
    accept: promptSet.accept.bind(promptSet),
    reask: promptSet.reask.bind(promptSet),
    answer: promptSet.answer.bind(promptSet),
    partialAnswer: promptSet.partialAnswer.bind(promptSet),
    ...changes,
  };
}

/**
 * The prompts with white space stripped from both ends of each text answer. A request that
 * continues after an answer gets the stripped one.
 */
export function withStrippedAnswers(promptSet: PromptSet): PromptSet {
  return changedPromptSet(promptSet, {
    accept: (request, response) => {
      const accepted = promptSet.accept(request, response);
      const answers = accepted.answers.map((answer) => ({ ...answer, text: answer.text.trim() }));
      return { ...accepted, answers };
    },
  });
}
