import type {
  ChatMessage,
  GenerationParameters,
  InferenceRequest,
  InferenceResponse,
} from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { jobInvalid } from "./answer-form.ts";
import { CompiledPrompt } from "./compiled-prompt.ts";
import type { PromptOptions } from "./prompt-options.ts";

/** The prompts of a job: rows to requests, and responses to what goes into the output. */
export interface PromptSet {
  /** Names of the prompts in job order; the only one of `prompt:` is called `prompt`. */
  readonly names: readonly string[];
  /**
   * Requests of one row: prompts in job order, elements of a `forEach` in the list's order. None
   * where every prompt's list is empty; the row's answer is then `answer([], [])`.
   *
   * @throws SluiceError of scope `row`: `VARIABLE_MISSING`, `FIELD_TYPE`, `TEMPLATE_FAILED`,
   *   `ELEMENTS_TOO_MANY`.
   */
  requests(row: JsonObject, index: number): InferenceRequest[];
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
  reask(request: InferenceRequest, badText: string, problem: string): InferenceRequest;
  /**
   * What goes into `output.field`, from all requests of a row and their accepted responses: the
   * answer of `prompt`, or an object of the answers of `prompts` by name.
   */
  answer(
    requests: readonly InferenceRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json;
  /** The same of a row that failed: null for an answer that is missing. */
  partialAnswer(
    requests: readonly InferenceRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json;
}

/** The part of a job that prompts are compiled from. */
export interface PromptSetSpec {
  prompt?: PromptOptions;
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
  const { returnFullText = false, ...parameters } = spec.generation;
  const shared = Object.freeze({ ...parameters });
  const named =
    spec.prompt === undefined
      ? Object.entries(spec.prompts ?? {}).map(
          ([name, options]) => [name, `prompts.${name}`, options] as const,
        )
      : [["prompt", "prompt", spec.prompt] as const];
  if (named.length === 0) throw jobInvalid("prompts", "there is no prompt");
  const prompts = named.map(([name, key, options]) => {
    if (returnFullText) refuseFullText(options, key);
    return new CompiledPrompt(name, key, options, shared, returnFullText);
  });
  const single = spec.prompt === undefined ? undefined : prompts[0];
  return new PromptSetOf(prompts, single);
}

function refuseFullText(options: PromptOptions, key: string): void {
  if (options.api !== "completion") {
    const problem = `${key} is a chat, not a prompt with its continuation; set api: completion`;
    throw jobInvalid("generation.returnFullText", problem);
  }
  if (options.answer !== undefined) {
    throw jobInvalid("generation.returnFullText", `${key}.answer gives a line, not a text`);
  }
}

class PromptSetOf implements PromptSet {
  readonly names: readonly string[];
  readonly #prompts: readonly CompiledPrompt[];
  readonly #byName: ReadonlyMap<string, CompiledPrompt>;
  readonly #single: CompiledPrompt | undefined;

  constructor(prompts: readonly CompiledPrompt[], single: CompiledPrompt | undefined) {
    this.names = prompts.map((prompt) => prompt.name);
    this.#prompts = prompts;
    this.#byName = new Map(prompts.map((prompt) => [prompt.name, prompt]));
    this.#single = single;
  }

  requests(row: JsonObject, index: number): InferenceRequest[] {
    const requests: InferenceRequest[] = [];
    for (const prompt of this.#prompts) prompt.addRequests(row, index, requests);
    return requests;
  }

  accept(request: InferenceRequest, response: InferenceResponse): InferenceResponse {
    if (request.slottedLine === undefined) return response;
    return this.#byName.get(request.promptName)?.form?.accept(request, response) ?? response;
  }

  reask(request: InferenceRequest, badText: string, problem: string): InferenceRequest {
    if (request.messages === undefined) return request;
    const messages = [...request.messages];
    const last = messages.at(-1);
    // The answer goes on where the prompt's own beginning of it ended.
    const begun = last?.role === "assistant" ? last.content : "";
    if (begun !== "") messages.pop();
    const bad: ChatMessage = { role: "assistant", content: begun + badText || "(nothing)" };
    const complaint = `That is not right: ${problem}\nAnswer again, with the corrected line only.`;
    return { ...request, messages: [...messages, bad, { role: "user", content: complaint }] };
  }

  answer(
    requests: readonly InferenceRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    if (this.#single !== undefined) return this.#single.answer(requests, responses);
    const entries = this.#prompts.map((prompt) => {
      const own = requests.flatMap((request, at) => (request.promptName === prompt.name ? at : []));
      const answer = prompt.answer(
        own.map((at) => requests[at]!),
        own.map((at) => responses[at]),
      );
      return [prompt.name, answer] as const;
    });
    return Object.fromEntries(entries);
  }

  partialAnswer(
    requests: readonly InferenceRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    if (requests.length > 0) return this.answer(requests, responses);
    // The row failed before it was asked: nothing is known, not even that a list is empty.
    return this.#single === undefined
      ? Object.fromEntries(this.names.map((name) => [name, null]))
      : null;
  }
}
