import { SluiceError } from "../foundation/errors.ts";
import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import type { InferenceResponse, SamplingParameters } from "../foundation/inference.ts";
import type { Json } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import { type AnswerForm, compileAnswerForm, jobInvalid } from "./answer-form.ts";
import { compileExpression, type Expression } from "./expression.ts";
import { wrongType } from "./field-errors.ts";
import type { KeepablePrompt, OwnParts } from "./prepared-row.ts";
import { compileContent, type PromptContent } from "./prompt-content.ts";
import type { PromptOptions } from "./prompt-options.ts";
import type { RowOrigin, RowRequest } from "./row-request.ts";
import { compileStructuredForm } from "./structure/structured-form.ts";
import { truncateFeatures } from "./types/prompt-text.ts";
import type { AskedMessages } from "./types/turns.ts";
import { kindOf } from "./value-text.ts";

/** A prompt of a job. */
export type PromptToCompile = PromptOptions & {
  /** Key of `schema` in the job file, if the schema is not in the prompt itself. */
  schemaKey?: string;
};

/**
 * One compiled prompt of a job. With `forEach`, templates and `copyFrom` may use `item`, the
 * element, and `loop` as in Jinja's own loops: `loop.index` from 1, `index0`, `first`, `last`,
 * `length`, and `previtem` and `nextitem` if they exist.
 */
export class CompiledPrompt implements KeepablePrompt {
  readonly name: string;
  /** The form that answers must have, if the job sets one. */
  readonly form: AnswerForm | undefined;
  readonly #key: string;
  readonly #parameters: SamplingParameters;
  readonly #onTooLong: PromptOptions["onTooLong"];
  readonly #returnFullText: boolean;
  readonly #content: PromptContent;
  readonly #truncatedFeatures: readonly string[] | undefined;
  readonly #forEach: Expression | undefined;
  readonly #usesLoop: boolean;
  /** Fields of the row that it reads; undefined if it may read any. */
  readonly fields: readonly string[] | undefined;
  /** For requests that are turns of a conversation: their messages, some still answers to come. */
  readonly #asks = new WeakMap<RowRequest, AskedMessages>();

  /** @param key in the job file, for messages: `prompts.measures`. */
  constructor(
    name: string,
    key: string,
    options: PromptToCompile,
    parameters: SamplingParameters,
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

  /** `completion`: its requests have a `prompt` instead of messages. */
  get api(): PromptContent["api"] {
    return this.#content.api;
  }

  /** True if each row has exactly one request. */
  get isPlain(): boolean {
    return this.#forEach === undefined && this.#content.turns === undefined;
  }

  /** The request of one row; only if `isPlain`. */
  plainRequest(row: WrittenRow, index: number): RowRequest {
    return this.#request(this.#featuresOf(row), { index, promptName: this.name }, undefined);
  }

  /** Appends the requests of one row to `requests`. */
  addRequests(fullRow: WrittenRow, index: number, requests: RowRequest[]): void {
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
      const origin: RowOrigin = { index, promptName: this.name, element: at };
      if (numbers !== undefined) origin.number = numbers[at]!;
      requests.push(this.#request(row, origin, extra));
    }
  }

  #featuresOf(row: WrittenRow): WrittenRow {
    const features = this.#truncatedFeatures;
    return features === undefined ? row : truncateFeatures(row, features);
  }

  #addTurns(row: WrittenRow, index: number, requests: RowRequest[]): void {
    for (const [element, ask] of this.#content.turns!.asks(row).entries()) {
      const origin: RowOrigin = { index, promptName: this.name, element };
      if (element > 0) origin.after = requests.length - 1;
      const request = this.#bareRequest(origin);
      this.#beginTurn(request, ask);
      requests.push(request);
    }
  }

  #beginTurn(request: RowRequest, ask: AskedMessages): void {
    this.#asks.set(request, ask);
    if (request.origin.after === undefined) this.#content.turns!.fill(request, ask, []);
  }

  /** Adds the messages of a request that waited for the answers to the requests before it. */
  goOn(request: RowRequest, answers: readonly string[]): void {
    const ask = this.#asks.get(request);
    if (ask !== undefined) this.#content.turns!.fill(request, ask, answers);
  }

  askOf(request: RowRequest): AskedMessages | undefined {
    return this.#asks.get(request);
  }

  again(
    { tokens, ...own }: OwnParts,
    sources: readonly string[],
    ask: AskedMessages | undefined,
  ): RowRequest {
    const request = Object.assign(this.#bareRequest(own.origin), own);
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

  #request(row: WrittenRow, origin: RowOrigin, extra: WrittenRow | undefined): RowRequest {
    const request = this.#bareRequest(origin);
    this.#content.fill(request, row, extra);
    if (this.form !== undefined) {
      Object.assign(request, this.form.ask(this.form.sources(row, extra)));
    }
    return request;
  }

  #bareRequest(origin: RowOrigin): RowRequest {
    return { origin, parameters: this.#parameters, onTooLong: this.#onTooLong };
  }

  /** The answer of this prompt, from its own requests of a row. Null if a response is missing. */
  answer(
    requests: readonly RowRequest[],
    responses: readonly (InferenceResponse | undefined)[],
  ): Json {
    if (this.isPlain) return this.#answerOf(requests[0], responses[0]);
    const values = requests.map((request, at) => this.#answerOf(request, responses[at]));
    if (this.form === undefined) return values;
    const numbers = requests.map(({ origin }, at) => origin.number ?? at + 1);
    return this.form.gather(values, numbers);
  }

  #answerOf(request: RowRequest | undefined, response: InferenceResponse | undefined): Json {
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

/** Jinja's `loop` at one element. */
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
