import type { SamplingParameters } from "../../foundation/inference.ts";
import { canonicalJson, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { nearest } from "../../foundation/suggest.ts";
import { invalid, unsupported, withoutTools } from "./request-faults.ts";

/** What a line requests; its URL decides. */
export type RequestKind = "chat" | "completion" | "embedding";

type Changes = Partial<SamplingParameters>;

/** Adds the changes that a field's value makes; false = an invalid value. */
type Reader = (value: Json, changes: Changes) => boolean;

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
  const read: Reader = (value, changes: Record<string, unknown>) => {
    if (typeof value !== "number" || !isFine(value)) return false;
    changes[key] = value;
    return true;
  };
  return { must, read };
}

const within = (low: number, high: number) => (value: number) => value >= low && value <= high;
const wholeFrom = (low: number, high = Number.MAX_SAFE_INTEGER) => {
  return (value: number) => Number.isSafeInteger(value) && value >= low && value <= high;
};

const maxTokens = number("maxNewTokens", "a whole number of at least 1", wholeFrom(1));

/** Sampling parameters of chats and completions. */
const shared: readonly [string, Parameter][] = [
  ["max_tokens", maxTokens],
  ["max_completion_tokens", maxTokens],
  ["temperature", number("temperature", "a number from 0 to 10", within(0, 10))],
  ["top_p", number("topP", "a number above 0, at most 1", (value) => value > 0 && value <= 1)],
  ["top_k", { must: "a whole number of at least -1", read: readTopK }],
  ["min_p", number("minP", "a number from 0 to 1", within(0, 1))],
  ["repetition_penalty", number("repetitionPenalty", "a number above 0", (value) => value > 0)],
  ["presence_penalty", number("presencePenalty", "a number from -2 to 2", within(-2, 2))],
  ["frequency_penalty", number("frequencyPenalty", "a number from -2 to 2", within(-2, 2))],
  ["seed", number("seed", `a whole number from 0 to ${maxSeed}`, wholeFrom(0, maxSeed))],
  ["stop", { must: "a text or a list of texts", read: readStop }],
  [
    "n",
    number(
      "numReturnSequences",
      `a whole number from 1 to ${limits.maxReturnSequences}`,
      wholeFrom(1, limits.maxReturnSequences),
    ),
  ],
  ["ignore_eos", { must: "true or false", read: readIgnoreEos }],
];

const logprobsMust = `a whole number from 0 to ${limits.maxLogprobs}`;
const isLogprobs = wholeFrom(0, limits.maxLogprobs);

const parameters: Readonly<Record<RequestKind, ReadonlyMap<string, Parameter>>> = {
  chat: new Map([...shared, ["logprobs", { must: "true or false", read: readLogprobs }]]),
  completion: new Map([...shared, ["logprobs", number("logprobs", logprobsMust, isLogprobs)]]),
  embedding: new Map(),
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
  for (const name in body) {
    const value = body[name];
    if (value === null || value === undefined || own.includes(name)) continue;
    const parameter = known.get(name);
    if (parameter === undefined) {
      if (kind === "chat" && name === "top_logprobs" && body.logprobs === true) continue;
      assertNeutral(name, value, known, own);
    } else if (!parameter.read(value, changes)) {
      throw invalid(`body.${name}`, parameter.must, value);
    }
  }
  // OpenAI's newer name wins if a body has both.
  const { max_completion_tokens: maxNewTokens } = body;
  if (typeof maxNewTokens === "number") changes.maxNewTokens = maxNewTokens;
  if (kind === "chat" && body.logprobs === true) readTopLogprobs(body.top_logprobs, changes);
  return changes;
}

function readTopLogprobs(value: Json | undefined, changes: Changes): void {
  if (value === undefined || value === null || value === 0) return;
  if (typeof value !== "number" || !isLogprobs(value)) {
    throw invalid("body.top_logprobs", logprobsMust, value);
  }
  changes.logprobs = value;
}

function assertNeutral(
  name: string,
  value: Json,
  known: ReadonlyMap<string, Parameter>,
  own: readonly string[],
): void {
  if (withoutEffect.has(name)) return;
  const neutral = Object.hasOwn(neutralValues, name) ? neutralValues[name]! : undefined;
  if (neutral?.some((fine) => fine === value || canonicalJson(fine) === canonicalJson(value)))
    return;
  const field = `body.${name}`;
  if (toolFields.has(name)) throw unsupported(field, withoutTools);
  if (neutral) throw unsupported(field, `only ${neutral.map(canonicalJson).join(" or ")} is taken`);
  const meant = nearest(name, [...known.keys(), ...own]);
  throw unsupported(field, meant === undefined ? "" : `did you mean ${meant}?`);
}

function readTopK(value: Json, changes: Changes): boolean {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < -1) return false;
  changes.topK = Math.max(0, value);
  return true;
}

function readStop(value: Json, changes: Changes): boolean {
  const texts = typeof value === "string" ? [value] : value;
  if (!Array.isArray(texts) || texts.some((text) => typeof text !== "string")) return false;
  changes.stop = texts as string[];
  return true;
}

function readIgnoreEos(value: Json, changes: Changes): boolean {
  if (typeof value !== "boolean") return false;
  changes.ignoreEos = value;
  return true;
}

/** Of a chat: without `top_logprobs`, the likeliest token is reported too. */
function readLogprobs(value: Json, changes: Changes): boolean {
  if (typeof value !== "boolean") return false;
  if (value) changes.logprobs = 1;
  return true;
}
