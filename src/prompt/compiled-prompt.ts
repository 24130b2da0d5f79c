import { SluiceError } from "../foundation/errors.ts";
import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import type {
  GenerationParameters,
  InferenceRequest,
  InferenceResponse,
} from "../foundation/inference.ts";
import type { Json } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import { type AnswerForm, compileAnswerForm, jobInvalid } from "./answer-form.ts";
import { compileExpression, type Expression } from "./expression.ts";
import { wrongType } from "./field-errors.ts";
import type { KeepablePrompt, OwnParts } from "./kept-row.ts";
import { compileContent, type PromptContent } from "./prompt-content.ts";
import type { PromptOptions } from "./prompt-options.ts";
import { compileStructuredForm } from "./structure/structured-form.ts";
import { truncateFeatures } from "./types/prompt-text.ts";
import type { AskedMessages } from "./types/turns.ts";
import { kindOf } from "./value-text.ts";

/** What a job says of one prompt. */
export type PromptToCompile = PromptOptions & {
  /** Key of `schema`, where that does not stand in the prompt. */
  schemaKey?: string;
};

/**
 * One prompt of a job, compiled. With `forEach`, templates and `copyFrom` may use `item`, the
 * element, and `loop`, as Jinja's own loops have it: `loop.index` from 1, `index0`, `first`,
 * `last`, `length`, and `previtem` and `nextitem` where there are such.
 */
export class CompiledPrompt implements KeepablePrompt {
  readonly name: string;
  /** How answers must look, where the job says so. */
  readonly form: AnswerForm | undefined;
  readonly #key: string;
  readonly #parameters: GenerationParameters;
  readonly #onTooLong: PromptOptions["onTooLong"];
  readonly #returnFullText: boolean;
  readonly #content: PromptContent;
  readonly #truncatedFeatures: readonly string[] | undefined;
  readonly #forEach: Expression | undefined;
  readonly #usesLoop: boolean;
  /** Fields of the row that it reads; undefined where any may be. */
  readonly fields: readonly string[] | undefined;
  /** What requests ask that are turns of a conversation. */
  readonly #asks = new WeakMap<InferenceRequest, AskedMessages>();

  /** @param key of the job file, for messages: `prompts.measures`. */
  constructor(
    name: string,
    key: string,
    options: PromptToCompile,
    parameters: GenerationParameters,
    returnFullText: boolean,
  ) {
    this.name = name;
    this.#key = key;
    this.#parameters = parameters;
    this.#onTooLong = options.onTooLong;
    this.#returnFullText = returnFullText;
    this.#truncatedFeatures = options.truncateFeatures;
    this.#content = compileContent(options, key);
    this.#forEach =
      options.forEach === undefined
        ? undefined
        : compileExpression(options.forEach, { name: `${key}.forEach` });
    this.form = formOf(options, key);
    const parts = [this.#content, this.form, this.#forEach];
    const variables = parts.flatMap((part) => part?.variables ?? []);
    this.#usesLoop = variables.includes("loop");
    const isAny = options.type !== undefined || variables.includes("row");
    this.fields = isAny ? undefined : variables;
  }

  /** `completion`: its requests have a `prompt` and no messages. */
  get api(): PromptContent["api"] {
    return this.#content.api;
  }

  /** True where each row has exactly one request. */
  get isPlain(): boolean {
    return this.#forEach === undefined && this.#content.turns === undefined;
  }

  /** The request of one row, where `isPlain`. */
  plainRequest(row: WrittenRow, index: number): InferenceRequest {
    return this.#request(this.#featuresOf(row), index, undefined, undefined);
  }

  /** Appends the requests of one row. */
  addRequests(fullRow: WrittenRow, index: number, requests: InferenceRequest[]): void {
    if (this.isPlain) {
      requests.push(this.plainRequest(fullRow, index));
      return;
    }
    const row = this.#featuresOf(fullRow);
    if (this.#content.turns !== undefined) return this.#addTurns(row, index, requests);
    const elements = this.#elementsOf(row);
    const numbers = this.form?.isNumbered ? this.#forEach!.sourceNumbers?.(row) : undefined;
    for (let at = 0; at < elements.length; at++) {
      const extra: WrittenRow = { item: elements[at]! };
      if (this.#usesLoop) extra.loop = loopAt(elements, at);
      const request = this.#request(row, index, extra, at);
      if (numbers !== undefined) request.number = numbers[at]!;
      requests.push(request);
    }
  }

  #featuresOf(row: WrittenRow): WrittenRow {
    const features = this.#truncatedFeatures;
    return features === undefined ? row : truncateFeatures(row, features);
  }

  #addTurns(row: WrittenRow, index: number, requests: InferenceRequest[]): void {
    for (const [element, ask] of this.#content.turns!.asks(row).entries()) {
      const request: InferenceRequest = { ...this.#bareRequest(index), element };
      if (element > 0) request.after = requests.length - 1;
      this.#beginTurn(request, ask);
      requests.push(request);
    }
  }

  #beginTurn(request: InferenceRequest, ask: AskedMessages): void {
    this.#asks.set(request, ask);
    if (request.after === undefined) this.#content.turns!.fill(request, ask, []);
  }

  /** Gives a request that had to wait its words, now that those before it were answered. */
  goOn(request: InferenceRequest, answers: readonly string[]): void {
    const ask = this.#asks.get(request);
    if (ask !== undefined) this.#content.turns!.fill(request, ask, answers);
  }

  askOf(request: InferenceRequest): AskedMessages | undefined {
    return this.#asks.get(request);
  }

  again(
    index: number,
    { tokens, ...own }: OwnParts,
    sources: readonly string[],
    ask: AskedMessages | undefined,
  ): InferenceRequest {
    const request: InferenceRequest = { ...this.#bareRequest(index), ...own };
    if (ask !== undefined) this.#beginTurn(request, ask);
    else if (this.form !== undefined) Object.assign(request, this.form.ask(sources));
    if (tokens !== undefined) request.tokens = tokens;
    return request;
  }

  #elementsOf(row: WrittenRow): WrittenJson[] {
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
    row: WrittenRow,
    index: number,
    extra: WrittenRow | undefined,
    element: number | undefined,
  ): InferenceRequest {
    const request = this.#bareRequest(index);
    this.#content.fill(request, row, extra);
    if (element !== undefined) request.element = element;
    if (this.form !== undefined) {
      Object.assign(request, this.form.ask(this.form.sources(row, extra)));
    }
    return request;
  }

  #bareRequest(index: number): InferenceRequest {
    return {
      index,
      promptName: this.name,
      parameters: this.#parameters,
      onTooLong: this.#onTooLong,
    };
  }

  /** The answer of this prompt from its own requests of a row; null where a response is missing. */
  answer(
    requests: readonly InferenceRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    if (this.isPlain) return this.#answerOf(requests[0], responses[0]);
    const values = requests.map((request, at) => this.#answerOf(request, responses[at]));
    if (this.form === undefined) return values;
    const numbers = requests.map(({ number }, at) => number ?? at + 1);
    return this.form.gather(values, numbers);
  }

  #answerOf(request: InferenceRequest | undefined, response: InferenceResponse | undefined): Json {
    if (response === undefined) return null;
    const before = this.#returnFullText ? (request?.prompt ?? "") : "";
    const given = response.answers.map(({ value, text }) =>
      value === undefined ? before + text : value,
    );
    return given.length === 1 ? given[0]! : given;
  }
}

function formOf(options: PromptToCompile, key: string): AnswerForm | undefined {
  const { answer, schema, schemaKey = `${key}.schema`, forEach } = options;
  if (schema !== undefined && answer !== undefined) {
    throw jobInvalid(schemaKey, "give answer or schema, not both");
  }
  if (schema !== undefined) return compileStructuredForm(schema, schemaKey);
  return answer && compileAnswerForm(answer, `${key}.answer`, forEach !== undefined);
}

/** Jinja's `loop` for one element. */
function loopAt(elements: readonly WrittenJson[], at: number): WrittenRow {
  const loop: WrittenRow = {
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
