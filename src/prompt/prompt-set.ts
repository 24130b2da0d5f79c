import { SluiceError } from "../foundation/errors.ts";
import { writtenRow } from "../foundation/exact-json.ts";
import type {
  GenerationParameters,
  InferenceRequest,
  InferenceResponse,
} from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { type AnswerForm, jobInvalid, withComplaint } from "./answer-form.ts";
import { CompiledPrompt, type PromptToCompile } from "./compiled-prompt.ts";
import { type RequestKeeper, RowKeeper } from "./kept-row.ts";
import type { PromptOptions } from "./prompt-options.ts";
import type { RowRequest } from "./row-request.ts";

/** The prompts of a job: rows to requests, and responses to what goes into the output. */
export interface PromptSet {
  /** Names of the prompts in job order; the only one of `prompt:` is called `prompt`. */
  readonly names: readonly string[];
  /**
   * Requests of one row: prompts in job order, elements of a `forEach` in the list's order. None
   * where every prompt's list is empty; the row's answer is then `answer([], [])`.
   *
   * @param dataset name of the row's dataset, where the job has datasets.
   * @param raw the JSON text of the row, whose numbers then stand in prompts as they are written.
   * @throws SluiceError of scope `row`: `VARIABLE_MISSING`, `FIELD_TYPE`, `TEMPLATE_FAILED`,
   *   `ELEMENTS_TOO_MANY`.
   */
  requests(row: JsonObject, index: number, dataset?: string, raw?: string): RowRequest[];
  /**
   * The request of that number as it is to be asked. One that goes on from others of the row
   * (`after`) has its words only now that they were answered.
   */
  ready(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
    at: number,
  ): RowRequest;
  /**
   * Checks a response against the form that its request asked for, and fills each answer's `value`.
   * A response to a request without a form comes back as it is.
   *
   * @throws SluiceError `ANSWER_INVALID`, whose message says what is wrong.
   */
  accept(request: InferenceRequest, response: InferenceResponse): InferenceResponse;
  /**
   * The same request with its bad answer and the complaint shown to the model. A completion has no
   * place for them and comes back as it is.
   */
  reask<R extends InferenceRequest>(request: R, badText: string, problem: string): R;
  /**
   * What goes into `output.field`, from all requests of a row and their accepted responses: the
   * answer of `prompt`, or an object of the answers of `prompts` by name.
   */
  answer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json;
  /** The same of a row that failed: null for an answer that is missing. */
  partialAnswer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json;
  /** Keeps requests for other runs; absent where nothing is rendered. */
  readonly keeper?: RequestKeeper | undefined;
}

/** The part of a job that prompts are compiled from. */
export interface PromptSetSpec {
  prompt?: PromptOptions;
  /** The schema of `prompt`, where that does not have one itself. */
  schema?: JsonObject | undefined;
  prompts?: Record<string, PromptOptions>;
  generation: GenerationParameters & { returnFullText?: boolean };
}

/**
 * Compiles the prompts of a job, once for all its rows.
 *
 * @throws SluiceError `JOB_INVALID` or `TEMPLATE_INVALID`, naming the key.
 * @example
 * const set = compilePromptSet({ prompt: promptOptions.parse("Sum up: {{ text }}"), generation });
 * set.requests({ text: "It rained." }, 0)[0].messages;
 * // [{ role: "user", content: "Sum up: It rained." }]
 */
export function compilePromptSet(spec: PromptSetSpec): PromptSet {
  const { prompt, schema, prompts = {}, generation } = spec;
  if (prompt !== undefined) {
    const only = { name: "prompt", key: "prompt", options: prompt, schema, generation };
    return new PromptSetOf([compileOnePrompt(only)], "only");
  }
  const compile = promptCompiler(generation);
  const named = Object.entries(prompts);
  if (named.length === 0) throw jobInvalid("prompts", "there is no prompt");
  const compiled = named.map(([name, options]) => compile(name, `prompts.${name}`, options));
  return new PromptSetOf(compiled, "all");
}

/** A single prompt, and where the job file has it. */
export interface OnePromptSpec extends Pick<PromptSetSpec, "schema" | "generation"> {
  name: string;
  /** For messages: `dataset.0`. */
  key: string;
  options: PromptOptions;
}

/** Compiles a prompt whose answer is the answer of a row. */
export function compileOnePrompt(spec: OnePromptSpec): CompiledPrompt {
  const { name, key, options, schema, generation } = spec;
  return promptCompiler(generation)(name, key, withSchema(options, schema));
}

/** The prompts of several datasets: a row has that of its own, whose name is the dataset's. */
export function promptsByDataset(prompts: readonly CompiledPrompt[]): PromptSet {
  return new PromptSetOf(prompts, "ofDataset");
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

// The template of a chat says what stands first, and engines leave it as it is.
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

class PromptSetOf implements PromptSet {
  readonly keeper: RequestKeeper;
  readonly names: readonly string[];
  readonly #prompts: readonly CompiledPrompt[];
  readonly #byName: ReadonlyMap<string, CompiledPrompt>;
  readonly #which: "only" | "ofDataset" | "all";
  readonly #fields: readonly string[] | undefined;

  /** @param which of them a row has. */
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
    // What almost every job has; a literal is several times smaller than an array that grew.
    if (single?.isPlain) return [single.plainRequest(row, index)];
    const requests: RowRequest[] = [];
    for (const prompt of single ? [single] : this.#prompts) {
      prompt.addRequests(row, index, requests);
    }
    return requests;
  }

  /** The one prompt of a row, if rows have one. */
  #singleOf(dataset: string | undefined): CompiledPrompt | undefined {
    if (this.#which === "all") return undefined;
    if (this.#which === "only") return this.#prompts[0];
    const own = this.#byName.get(dataset ?? "");
    if (own !== undefined) return own;
    throw new SluiceError("RUN_DAMAGED", `a row is of dataset ${dataset}, which the job has not`);
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
    // The row failed before it was asked: nothing is known, not even that a list is empty.
    return this.#which === "all"
      ? Object.fromEntries(this.names.map((name) => [name, null]))
      : null;
  }
}

/** A prompt set that is another one in all but what is given. */
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
 * The same prompts with white space stripped from both ends of each answer that is text. What goes
 * on from an answer goes on from the stripped one.
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
