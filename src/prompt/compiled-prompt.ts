import { SluiceError } from "../foundation/errors.ts";
import type {
  ChatMessage,
  GenerationParameters,
  InferenceRequest,
  InferenceResponse,
} from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import { type AnswerForm, compileAnswerForm, jobInvalid } from "./answer-form.ts";
import { compileExpression, type Expression } from "./expression.ts";
import { wrongType } from "./field-errors.ts";
import type { PromptOptions } from "./prompt-options.ts";
import { compileTemplate, type Template } from "./template.ts";
import { kindOf } from "./value-text.ts";

interface MessageTemplate {
  role: ChatMessage["role"];
  content: Template;
}

/**
 * One prompt of a job, compiled. With `forEach`, templates and `copyFrom` may use `item`, the
 * element, and `loop`, as Jinja's own loops have it: `loop.index` from 1, `index0`, `first`,
 * `last`, `length`, and `previtem` and `nextitem` where there are such.
 */
export class CompiledPrompt {
  readonly name: string;
  /** How answers must look, where the job says so. */
  readonly form: AnswerForm | undefined;
  readonly #key: string;
  readonly #parameters: GenerationParameters;
  readonly #onTooLong: PromptOptions["onTooLong"];
  readonly #returnFullText: boolean;
  readonly #messages: readonly MessageTemplate[];
  /** The template of a completion. */
  readonly #prompt: Template | undefined;
  readonly #forEach: Expression | undefined;
  readonly #usesLoop: boolean;

  /** @param key of the job file, for messages: `prompts.measures`. */
  constructor(
    name: string,
    key: string,
    options: PromptOptions,
    parameters: GenerationParameters,
    returnFullText: boolean,
  ) {
    this.name = name;
    this.#key = key;
    this.#parameters = parameters;
    this.#onTooLong = options.onTooLong;
    this.#returnFullText = returnFullText;
    if (options.api === "completion") refuseMessages(options, key);
    this.#prompt =
      options.api === "completion" ? compileTemplate(options.prompt!, { name: key }) : undefined;
    this.#messages = options.api === "completion" ? [] : messageTemplates(options, key);
    this.#forEach =
      options.forEach === undefined
        ? undefined
        : compileExpression(options.forEach, { name: `${key}.forEach` });
    this.form =
      options.answer &&
      compileAnswerForm(options.answer, `${key}.answer`, options.forEach !== undefined);
    const templates = [this.#prompt, this.form, ...this.#messages.map(({ content }) => content)];
    this.#usesLoop = templates.some((template) => template?.variables.includes("loop"));
  }

  /** Appends the requests of one row. */
  addRequests(row: JsonObject, index: number, requests: InferenceRequest[]): void {
    if (this.#forEach === undefined) {
      requests.push(this.#request(row, index, undefined, undefined));
      return;
    }
    const elements = this.#elementsOf(row);
    for (let at = 0; at < elements.length; at++) {
      const extra: JsonObject = { item: elements[at]! };
      if (this.#usesLoop) extra.loop = loopAt(elements, at);
      requests.push(this.#request(row, index, extra, at));
    }
  }

  #elementsOf(row: JsonObject): Json[] {
    const elements = this.#forEach!.evaluate(row);
    const place = { name: `${this.#key}.forEach` };
    if (!Array.isArray(elements)) {
      throw wrongType(place, `it gives ${kindOf(elements)}, not a list`);
    }
    if (elements.length <= limits.maxElements) return elements;
    const detail = `${place.name} gives ${elements.length}, the most is ${limits.maxElements}`;
    throw new SluiceError("ELEMENTS_TOO_MANY", detail);
  }

  #request(
    row: JsonObject,
    index: number,
    extra: JsonObject | undefined,
    element: number | undefined,
  ): InferenceRequest {
    const request: InferenceRequest = {
      index,
      promptName: this.name,
      parameters: this.#parameters,
      onTooLong: this.#onTooLong,
    };
    if (this.#prompt !== undefined) request.prompt = this.#prompt.render(row, extra);
    else request.messages = this.#rendered(row, extra);
    if (element !== undefined) request.element = element;
    if (this.form !== undefined) request.slottedLine = this.form.lineFor(row, extra);
    return request;
  }

  #rendered(row: JsonObject, extra: JsonObject | undefined): ChatMessage[] {
    const messages: ChatMessage[] = [];
    for (const { role, content } of this.#messages) {
      messages.push({ role, content: content.render(row, extra) });
    }
    return messages;
  }

  /** The answer of this prompt from its own requests of a row; null where a response is missing. */
  answer(
    requests: readonly InferenceRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    if (this.#forEach === undefined) return this.#answerOf(requests[0], responses[0]);
    const values = requests.map((request, at) => this.#answerOf(request, responses[at]));
    return this.form === undefined ? values : this.form.gather(values);
  }

  #answerOf(request: InferenceRequest | undefined, response: InferenceResponse | undefined): Json {
    if (response === undefined) return null;
    const before = this.#returnFullText ? (request?.prompt ?? "") : "";
    const [only] = response.answers;
    if (only !== undefined && response.answers.length === 1)
      return only.value ?? before + only.text;
    return response.answers.map(({ value, text }) => value ?? before + text);
  }
}

function refuseMessages(options: PromptOptions, key: string): void {
  for (const field of ["messages", "system"] as const) {
    if (options[field] !== undefined) {
      throw jobInvalid(`${key}.${field}`, "a completion has no messages; put the text into prompt");
    }
  }
}

function messageTemplates(options: PromptOptions, key: string): MessageTemplate[] {
  const templates: MessageTemplate[] = [];
  const add = (role: ChatMessage["role"], source: string, name: string) =>
    templates.push({ role, content: compileTemplate(source, { name }) });
  if (options.system !== undefined) add("system", options.system, `${key}.system`);
  if (options.prompt !== undefined) add("user", options.prompt, key);
  for (const [at, { role, content }] of (options.messages ?? []).entries()) {
    add(role, content, `${key}.messages[${at}]`);
  }
  return templates;
}

/** Jinja's `loop` for one element. */
function loopAt(elements: readonly Json[], at: number): JsonObject {
  const loop: JsonObject = {
    index: at + 1,
    index0: at,
    first: at === 0,
    last: at === elements.length - 1,
    length: elements.length,
  };
  if (at > 0) loop.previtem = elements[at - 1]!;
  if (at < elements.length - 1) loop.nextitem = elements[at + 1]!;
  return loop;
}
