import { SluiceError } from "../foundation/errors.ts";
import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import {
  contentText,
  type InferenceRequest,
  type InferenceResponse,
  type SlottedLine,
  type TextMessage,
} from "../foundation/inference.ts";
import { isJsonObject, type Json } from "../foundation/json.ts";
import { sourceWords, wholePattern } from "../foundation/spans.ts";
import { nearest } from "../foundation/suggest.ts";
import { compileExpression, type Expression } from "./expression.ts";
import { wrongType } from "./field-errors.ts";
import { type LineTemplate, parseLineTemplate, renderFilled, renderLine } from "./line-template.ts";
import type { AnswerOptions } from "./prompt-options.ts";
import { parseSlottedLine, type SlotValues } from "./slotted-line.ts";
import { isNumber, kindOf } from "./value-text.ts";

/** The form of a prompt's answers: a line whose slots are copied, or JSON of a schema. */
export interface AnswerForm {
  /** What an answer is called in a complaint to the model: `line`, `JSON`. */
  readonly noun: string;
  /** Names that its expressions read from the row, `item` and `loop`. */
  readonly variables: readonly string[];
  /**
   * The texts that the answer to one request may copy from, one for each slot.
   *
   * @throws SluiceError of scope `row`: `VARIABLE_MISSING`, `FIELD_TYPE`, `TEMPLATE_FAILED`.
   */
  sources(row: WrittenRow, extra: WrittenRow | undefined): string[];
  /**
   * The part of a request that demands the form, for these sources.
   *
   * @throws SluiceError `FIELD_TYPE` if a source is too long to copy from.
   */
  ask(sources: readonly string[]): AskedForm;
  /**
   * Adds `value` to each answer of the response: for a line `{text, slot: copied text or null, …}`,
   * else the JSON. Adds `spans` if fields of the schema copy.
   *
   * @throws SluiceError `ANSWER_INVALID`.
   */
  accept(request: InferenceRequest, response: InferenceResponse): InferenceResponse;
  /**
   * Combines the answers of a `forEach` for the output: applies `omitEmptyElements`, then `join`.
   *
   * @param numbers the value of `{n}` for each answer.
   */
  gather(values: readonly Json[], numbers: readonly number[]): Json;
  /** True if `join` uses `{n}`. */
  readonly isNumbered?: boolean;
}

/** The part of a request that demands a form. */
export type AskedForm = Pick<InferenceRequest, "slottedLine" | "structure">;

/**
 * Checks and compiles the `answer` of a prompt.
 *
 * @param key in the job file, for messages: `prompts.measures.answer`.
 * @throws SluiceError `JOB_INVALID`, which names the key; `TEMPLATE_INVALID` for `copyFrom`.
 */
export function compileAnswerForm(
  options: AnswerOptions,
  key: string,
  hasForEach: boolean,
): AnswerForm {
  const line = lineTemplate(options.line, `${key}.line`);
  checkSlots(options, line, key);
  if (!hasForEach) refuseWithoutForEach(options, key);
  const join = options.join === undefined ? undefined : joinTemplate(options, line, key);
  const sources = new Map<string, Expression>();
  for (const [name, slot] of Object.entries(options.slots)) {
    const place = { name: `${key}.slots.${name}.copyFrom` };
    sources.set(name, compileExpression(slot.copyFrom, place));
    checkPattern(slot.pattern, `${key}.slots.${name}.pattern`);
  }
  const textOf = (values: SlotValues) =>
    options.omitEmptySlots
      ? renderFilled(line, (name) => values[name]!)
      : renderLine(line, (name) => values[name] ?? options.slots[name]!.orElse);
  return {
    noun: "line",
    variables: [...sources.values()].flatMap((source) => source.variables),
    sources: (row, extra) =>
      line.names.map((name) => {
        const { copyFrom } = options.slots[name]!;
        const place = { name: `${key}.slots.${name}.copyFrom` };
        return sourceText(sources.get(name)!.evaluate(row, extra), place, copyFrom);
      }),
    ask: (texts) => ({ slottedLine: lineFor(options, line, texts) }),
    accept: (request, response) => acceptLine(request, response, textOf),
    gather: (values, numbers) => gather(values, numbers, options, line, join),
    isNumbered: join?.names.includes("n") ?? false,
  };
}

function lineTemplate(source: string, key: string): LineTemplate {
  try {
    return parseLineTemplate(source);
  } catch (cause) {
    throw jobInvalid(key, (cause as Error).message);
  }
}

/** Each slot must be in the line, and each name in the line must be a slot. */
function checkSlots({ slots }: AnswerOptions, line: LineTemplate, key: string): void {
  const known = Object.keys(slots);
  if (line.names.length === 0) throw jobInvalid(`${key}.line`, "the line has no {slot}");
  for (const [place, name] of line.names.entries()) {
    if (!known.includes(name)) throw jobInvalid(`${key}.line`, notThere(`{${name}}`, name, known));
    if (line.names.indexOf(name) !== place) throw jobInvalid(`${key}.line`, `{${name}} twice`);
    if (place > 0 && line.texts[place] === "") {
      throw jobInvalid(`${key}.line`, `nothing parts {${name}} from the slot before it`);
    }
  }
  for (const name of known) {
    const slotKey = `${key}.slots.${name}`;
    if (!line.names.includes(name)) {
      const meant = nearest(name, line.names);
      const guess = meant === undefined ? "" : `; did you mean ${meant}?`;
      throw jobInvalid(slotKey, `{${name}} does not stand in the line${guess}`);
    }
    if (name === "text" || name === "n") {
      throw jobInvalid(slotKey, `${name} has a meaning of its own; give the slot another name`);
    }
  }
}

function notThere(shown: string, name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return `${shown} is none of ${known.join(", ")}${meant ? `; did you mean ${meant}?` : ""}`;
}

function refuseWithoutForEach(options: AnswerOptions, key: string): void {
  if (options.join !== undefined) throw jobInvalid(`${key}.join`, "join needs forEach");
  if (options.omitEmptyElements) {
    throw jobInvalid(`${key}.omitEmptyElements`, "omitEmptyElements needs forEach");
  }
}

function joinTemplate(options: AnswerOptions, line: LineTemplate, key: string): LineTemplate {
  const join = lineTemplate(options.join!, `${key}.join`);
  const known = ["n", "text", ...line.names];
  for (const name of join.names) {
    if (!known.includes(name)) throw jobInvalid(`${key}.join`, notThere(`{${name}}`, name, known));
  }
  return join;
}

function checkPattern(pattern: string | undefined, key: string): void {
  if (pattern === undefined) return;
  try {
    wholePattern(pattern);
  } catch (cause) {
    throw jobInvalid(key, (cause as Error).message);
  }
}

/** The error of a job that contradicts itself; names the key. */
export function jobInvalid(key: string, problem: string): SluiceError {
  return new SluiceError("JOB_INVALID", problem, { field: key });
}

/**
 * A value to copy from, as text.
 *
 * @throws SluiceError `FIELD_TYPE` if it is not a text.
 */
export function sourceText(value: WrittenJson, place: { name: string }, copyFrom: string): string {
  if (typeof value === "string" || isNumber(value)) return String(value);
  throw wrongType(place, `${copyFrom} is ${kindOf(value)}, not a text`);
}

function lineFor(
  options: AnswerOptions,
  line: LineTemplate,
  sources: readonly string[],
): SlottedLine {
  const slots = line.names.map((name, at) => {
    const { orElse, maxWords, pattern } = options.slots[name]!;
    const slot = { name, source: sources[at]!, orElse, maxWords };
    sourceWords(slot);
    return pattern === undefined ? slot : { ...slot, pattern };
  });
  return { line: options.line, slots };
}

function acceptLine(
  request: InferenceRequest,
  response: InferenceResponse,
  textOf: (values: SlotValues) => string,
): InferenceResponse {
  const answers = response.answers.map((answer) => {
    const parsed = parseSlottedLine(request.slottedLine!, answer.text);
    if (!parsed.ok) throw new SluiceError("ANSWER_INVALID", parsed.problem);
    return { ...answer, value: { text: textOf(parsed.values), ...parsed.values } };
  });
  return { ...response, answers };
}

function gather(
  values: readonly Json[],
  numbers: readonly number[],
  options: AnswerOptions,
  line: LineTemplate,
  join: LineTemplate | undefined,
): Json {
  const isEmpty = (value: Json): boolean =>
    Array.isArray(value)
      ? value.every(isEmpty)
      : isJsonObject(value) && line.names.every((name) => (value[name] ?? null) === null);
  const numbered = values.map((value, place) => ({ value, number: numbers[place]! }));
  const kept = options.omitEmptyElements
    ? numbered.filter(({ value }) => !isEmpty(value))
    : numbered;
  if (join === undefined) return kept.map(({ value }) => value);
  const lines = kept.map(({ value, number }) => {
    const first = Array.isArray(value) ? value[0] : value;
    if (!isJsonObject(first)) return "";
    return renderLine(join, (name) => {
      if (name === "n") return String(number);
      return String(first[name] ?? options.slots[name]?.orElse ?? "");
    });
  });
  return lines.filter((text) => text !== "").join("\n");
}

/**
 * The request with its bad answer and the complaint as further messages. A completion has no place
 * for them and is returned as it is.
 *
 * @param noun what the answer should have been: `line`, `JSON`.
 */
export function withComplaint<R extends InferenceRequest>(
  request: R,
  badText: string,
  problem: string,
  noun: string,
): R {
  if (request.messages === undefined) return request;
  const messages = [...request.messages];
  const last = messages.at(-1);
  // The prompt began the answer itself; what the model wrote comes after that.
  const begun = last?.role === "assistant" ? contentText(last.content) : "";
  if (begun !== "") messages.pop();
  const bad: TextMessage = { role: "assistant", content: begun + badText || "(nothing)" };
  const complaint = `That is not right: ${problem}\nAnswer again, with the corrected ${noun} only.`;
  const { tokens: _ofOtherWords, ...rest } = request;
  const ask: TextMessage = { role: "user", content: complaint };
  return { ...(rest as R), messages: [...messages, bad, ask] };
}
