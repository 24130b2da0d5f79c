import type { SamplingParameters } from "../../foundation/inference.ts";
import { canonicalJson, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { nearest } from "../../foundation/suggest.ts";
import { invalid, unsupported, withoutTools } from "./request-faults.ts";

/** What a line requests; its URL decides. */
export type RequestKind = "chat" | "completion" | "embedding";

type Changes = Partial<SamplingParameters>;

/** The changes that a field's value makes; undefined = an invalid value. */
type Reader = (value: Json) => Changes | undefined;

interface Parameter {
  /** What the value must be, for messages. */
  must: string;
  read: Reader;
}

const maxSeed = 0xffff_ffff;

function number(
  key: keyof Changes,
  must: string,
  isFine: (value: number) => boolean = () => true,
): Parameter {
  const isNumber = (value: Json): value is number => typeof value === "number" && isFine(value);
  return { must, read: (value) => (isNumber(value) ? { [key]: value } : undefined) };
}

const within = (low: number, high: number) => (value: number) => value >= low && value <= high;
const wholeWithin = (low: number, high: number) => (value: number) =>
  Number.isSafeInteger(value) && value >= low && value <= high;

const maxTokens: Parameter = {
  must: "a whole number of at least 1",
  read: (value) =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= 1
      ? { maxNewTokens: value }
      : undefined,
};

/** Sampling parameters of chats and completions. */
const shared: Readonly<Record<string, Parameter>> = {
  max_tokens: maxTokens,
  // OpenAI's newer name. It wins if a body has both.
  max_completion_tokens: maxTokens,
  temperature: number("temperature", "a number from 0 to 10", within(0, 10)),
  top_p: number("topP", "a number above 0, at most 1", (value) => value > 0 && value <= 1),
  top_k: {
    must: "a whole number of at least -1",
    read: (value) =>
      typeof value === "number" && Number.isSafeInteger(value) && value >= -1
        ? { topK: Math.max(0, value) }
        : undefined,
  },
  min_p: number("minP", "a number from 0 to 1", within(0, 1)),
  repetition_penalty: number("repetitionPenalty", "a number above 0", (value) => value > 0),
  presence_penalty: number("presencePenalty", "a number from -2 to 2", within(-2, 2)),
  frequency_penalty: number("frequencyPenalty", "a number from -2 to 2", within(-2, 2)),
  seed: number("seed", `a whole number from 0 to ${maxSeed}`, wholeWithin(0, maxSeed)),
  stop: { must: "a text or a list of texts", read: readStop },
  n: number(
    "numReturnSequences",
    `a whole number from 1 to ${limits.maxReturnSequences}`,
    wholeWithin(1, limits.maxReturnSequences),
  ),
  ignore_eos: {
    must: "true or false",
    read: (value) => (typeof value === "boolean" ? { ignoreEos: value } : undefined),
  },
};

const logprobsMust = `a whole number from 0 to ${limits.maxLogprobs}`;

const parameters: Readonly<Record<RequestKind, Readonly<Record<string, Parameter>>>> = {
  chat: {
    ...shared,
    // Without `top_logprobs`, the likeliest token is reported too.
    logprobs: {
      must: "true or false",
      read: (value) => (typeof value === "boolean" ? (value ? { logprobs: 1 } : {}) : undefined),
    },
  },
  completion: {
    ...shared,
    logprobs: number("logprobs", logprobsMust, wholeWithin(0, limits.maxLogprobs)),
  },
  embedding: {},
};

/** The same as lists: they are gone through for every request. */
const entries: Readonly<Record<RequestKind, readonly [string, Parameter][]>> = {
  chat: Object.entries(parameters.chat),
  completion: Object.entries(parameters.completion),
  embedding: [],
};

/** Fields that never change the answer. */
const withoutEffect: ReadonlySet<string> = new Set([
  "cache_prompt",
  "metadata",
  "parallel_tool_calls",
  "priority",
  "prompt_cache_key",
  "prompt_cache_retention",
  "request_id",
  "safety_identifier",
  "service_tier",
  "store",
  "stream_options",
  "user",
]);

/** Fields that request tool calls, unless their value is neutral. */
const toolFields: ReadonlySet<string> = new Set([
  "function_call",
  "functions",
  "tool_choice",
  "tools",
]);

/** Values with which a field requests nothing. Any other value is an error. */
const neutralValues: Readonly<Record<string, readonly Json[]>> = {
  add_generation_prompt: [true],
  bad_words: [[]],
  best_of: [1],
  continue_final_message: [false],
  echo: [false],
  encoding_format: ["float"],
  function_call: ["none"],
  functions: [[]],
  include_stop_str_in_output: [false],
  length_penalty: [1],
  logit_bias: [{}],
  min_tokens: [0],
  modalities: [["text"]],
  skip_special_tokens: [true],
  stop_token_ids: [[]],
  stream: [false],
  suffix: [""],
  tool_choice: ["none", "auto"],
  tools: [[]],
  top_logprobs: [0],
  use_beam_search: [false],
};

/**
 * The parameters that a body sets in place of the job's. A field that is null counts as absent.
 *
 * @param own fields of the body that other code reads, such as `messages`.
 * @throws SluiceError `PARAMETER_INVALID`, `PARAMETER_UNSUPPORTED`, which names the field.
 * @example
 * parametersOfBody({ messages, top_p: 0.9 }, "chat", ["messages"]); // { topP: 0.9 }
 */
export function parametersOfBody(
  body: JsonObject,
  kind: RequestKind,
  own: readonly string[],
): Changes {
  const known = parameters[kind];
  const changes: Changes = {};
  for (const [name, value] of Object.entries(body)) {
    if (value === null || own.includes(name) || Object.hasOwn(known, name)) continue;
    if (kind === "chat" && name === "top_logprobs" && body.logprobs === true) continue;
    assertNeutral(name, value, [...Object.keys(known), ...own]);
  }
  // In the order of the table: if a body has two names for one parameter, the later one wins.
  for (const [name, { must, read }] of entries[kind]) {
    const value = Object.hasOwn(body, name) ? body[name] : undefined;
    if (value === undefined || value === null) continue;
    const change = read(value);
    if (change === undefined) throw invalid(`body.${name}`, must, value);
    Object.assign(changes, change);
  }
  if (kind === "chat" && body.logprobs === true) readTopLogprobs(body.top_logprobs, changes);
  return changes;
}

function readTopLogprobs(value: Json | undefined, changes: Changes): void {
  if (value === undefined || value === null || value === 0) return;
  if (typeof value !== "number" || !wholeWithin(0, limits.maxLogprobs)(value)) {
    throw invalid("body.top_logprobs", logprobsMust, value);
  }
  changes.logprobs = value;
}

function assertNeutral(name: string, value: Json, known: readonly string[]): void {
  if (withoutEffect.has(name)) return;
  const neutral = Object.hasOwn(neutralValues, name) ? neutralValues[name]! : undefined;
  if (neutral?.some((fine) => canonicalJson(fine) === canonicalJson(value))) return;
  const field = `body.${name}`;
  if (toolFields.has(name)) throw unsupported(field, withoutTools);
  if (neutral) throw unsupported(field, `only ${neutral.map(canonicalJson).join(" or ")} is taken`);
  const meant = nearest(name, known);
  throw unsupported(field, meant === undefined ? "" : `did you mean ${meant}?`);
}

function readStop(value: Json): Changes | undefined {
  if (typeof value === "string") return { stop: [value] };
  if (!Array.isArray(value)) return undefined;
  const texts = value.filter((text) => typeof text === "string");
  return texts.length === value.length ? { stop: texts } : undefined;
}
