import type { Grammar } from "./grammar.ts";
import { sha256Hex } from "./hashing.ts";
import type { Json, JsonObject } from "./json.ts";

/** A piece of a message: words, an image, or sound. */
export type ContentPart =
  | { type: "text"; text: string }
  /** @param url where it is, or `data:image/png;base64,…`, which holds it. */
  | { type: "image"; url: string; detail?: "auto" | "low" | "high" }
  /** @param data its bytes, in base64. */
  | { type: "audio"; data: string; format: "wav" | "mp3" };

/** A call of a tool, as OpenAI's chat completions have it. */
export type ToolCall = {
  id: string;
  type: "function";
  /** @param arguments JSON as the model wrote it; nothing promises that it is valid. */
  function: { name: string; arguments: string };
};

/** One message of a conversation that is words alone, as prompts make them. */
export interface TextMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** One message of a conversation. */
export type ChatMessage =
  | { role: "system" | "user"; content: string | readonly ContentPart[] }
  | {
      role: "assistant";
      /** May be empty beside calls. */
      content: string | readonly ContentPart[];
      toolCalls?: readonly ToolCall[];
    }
  /** What a tool gave for the call with that id. */
  | { role: "tool"; content: string | readonly ContentPart[]; toolCallId: string };

/**
 * The words of a message, its parts joined by line breaks.
 *
 * @example
 * contentText([{ type: "text", text: "One" }, { type: "text", text: "Two" }]); // "One\nTwo"
 */
export function contentText(content: ChatMessage["content"]): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");
}

/** Which tools an answer must call: none, any if it likes to, some, or the one of that name. */
export type ToolChoice =
  | "none"
  | "auto"
  | "required"
  | { type: "function"; function: { name: string } };

/**
 * How an answer is sampled. Values are final by the time an engine sees them: what may be left out
 * then has the default that it names.
 */
export interface GenerationParameters {
  /**
   * Most tokens an answer may have; with `maxLength` a bound that no answer reaches. One that is
   * not `explicit` is the engine's default: a server is not sent it.
   */
  maxNewTokens: number;
  /** 0 = the likeliest token each time. */
  temperature: number;
  /** Share of probability that may be sampled from, 0 to 1; 1 = all. */
  topP: number;
  /** Number of likeliest tokens that may be sampled from; 0 = all. */
  topK: number;
  /** Least probability relative to the likeliest token; 0 = all. */
  minP: number;
  /** Above 1, tokens already present are made less likely; 1 = off. */
  repetitionPenalty: number;
  presencePenalty: number;
  frequencyPenalty: number;
  /**
   * Same seed, same request, same engine: same answer, as far as the engine can promise it. One
   * that is not `explicit` is the run's, drawn by chance: servers are not sent it, and engines of
   * this machine derive one for each request from it (`requestSeed`).
   */
  seed: number;
  /** Texts that end the answer; they are not part of it. */
  stop: readonly string[];
  /**
   * Most tokens of prompt and answer together; an engine that gets it counts the prompt's. A prompt
   * that leaves no token for an answer is too long. Default: only `maxNewTokens` counts.
   */
  maxLength?: number;
  /** Go on where the model would end the answer, up to its limit of tokens; default false. */
  ignoreEos?: boolean;
  /** Answers to one prompt, each sampled for itself; default 1. */
  numReturnSequences?: number;
  /** Beams of a beam search; default 1, which is none. */
  numBeams?: number;
  /**
   * In a beam search, a sequence's log probability is divided by its length to this power,
   * so that above 0 longer answers gain. Default: what the model says of itself, or 1.
   */
  lengthPenalty?: number;
  /**
   * When a beam search ends: `true` when there are as many finished sequences as beams, `false`
   * when no running beam is likely to do better, `"never"` when none can. Default: what the model
   * says of itself, or `false`.
   */
  earlyStopping?: boolean | "never";
  /** Likeliest tokens to report for each token of an answer; default 0, which reports nothing. */
  logprobs?: number;
  /**
   * Whether a `prompt` (not a chat) begins with the model's begin-of-text token. Default: as the
   * model's own tokenizer does.
   */
  prependBos?: boolean;
  /**
   * Parameters that somebody wrote down. An engine that leaves a default out, because a server has
   * its own, sends these all the same. Default: none.
   */
  explicit?: readonly string[];
}

/**
 * A request that asks for nothing in particular: the likeliest token each time, out of all, with
 * no penalty. How many tokens, and under which seed, has no such value.
 *
 * @example
 * const parameters = { ...greedyParameters, maxNewTokens: 8, seed: 7 };
 */
export const greedyParameters = Object.freeze({
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  stop: Object.freeze([]) as readonly string[],
});

/** What is meant by a request that leaves these out. */
export const leftOutParameters = Object.freeze({
  ignoreEos: false,
  numReturnSequences: 1,
  numBeams: 1,
  logprobs: 0,
});

/** What to do with a prompt that does not fit the model's context. */
export type TooLongPolicy = "fail" | "truncate-left" | "truncate-right";

/** One slot of a line that only copies. */
export interface Slot {
  name: string;
  /** The text whose consecutive words the slot may hold. */
  source: string;
  /** What stands in the line when the text has nothing to copy. */
  orElse: string;
  /** Most words that may be copied. */
  maxWords: number;
  /** A regular expression (JavaScript syntax, flags `iu`) that the whole copied text must match. */
  pattern?: string;
}

/**
 * An answer of one line with slots. `line` is a template such as
 * `temperature={temperature}, duration={duration}`; each `{name}` is one of `slots`.
 */
export interface SlottedLine {
  line: string;
  slots: readonly Slot[];
}

/** A form of JSON that an answer must have, in the two languages that engines take. */
export interface AnswerStructure {
  /** JSON Schema. */
  schema: JsonObject;
  /** The texts that the schema allows; engines that write by grammars enforce this one. */
  grammar: Grammar;
  /** The texts that fields copy from, for who checks the answer; `name` is the field's key. */
  copies?: readonly Slot[];
  /** Any JSON object will do: servers have a mode for that. */
  isAnyObject?: boolean;
}

/** Where copied words stand in their source, in UTF-16 units: `source.slice(start, end)`. */
export type SpanOffsets = readonly [start: number, end: number];

/**
 * Token ids of a prompt in parts, of the chat template and of contents by turns: the first is the
 * template's, which may be empty. Only contents are cut where a prompt is too long.
 */
export type PromptTokens = readonly (readonly number[])[];

/** The place in a run that a request comes from. */
export interface RequestOrigin {
  /** The row's stable index in the input. */
  index: number;
  promptName: string;
  /** Position in the list of a `forEach` prompt. */
  element?: number;
}

/** Stands for the origin of a request that belongs to no run, such as one that a server got. */
export const noOrigin: RequestOrigin = Object.freeze({ index: 0, promptName: "request" });

/** One request to a model. It has either `messages` or `prompt`, unless the engine reads rows. */
export interface InferenceRequest {
  messages?: readonly ChatMessage[];
  /** Sent as it is (`api: completion`). */
  prompt?: string;
  /** What the engine's `tokenize` made of these words before, so that it need not do so again. */
  tokens?: PromptTokens;
  parameters: GenerationParameters;
  /** Only an engine that counts tokens can cut a prompt. Default `fail`. */
  onTooLong?: TooLongPolicy;
  /** The answer must be this line, with slots that only copy. */
  slottedLine?: SlottedLine;
  /**
   * The answer must be JSON of this schema. Engines enforce it where they can; whoever asks checks
   * it in any case.
   */
  structure?: AnswerStructure;
  /** Of a chat: tools that the answer may call, as OpenAI's chat completions have them. */
  tools?: readonly JsonObject[];
  /** Default: `auto` if there are tools. A server may know more than these. */
  toolChoice?: ToolChoice | JsonObject;
  /** Whether one answer may call several tools. Default: the server's. */
  parallelToolCalls?: boolean;
  /** Asks for the vector of `prompt`, an array of numbers as `value`, in place of an answer. */
  embed?: boolean;
  /**
   * Path of a file of sound, in place of words: the answer is what is said in it. Beside
   * `messages`, of an image that the first of the user's shows.
   */
  file?: string;
  /** The row itself, for engines that read more than the words. */
  row?: JsonObject;
  /** Rows that are asked as one and have one outcome; the first of them is `row`. */
  rows?: readonly JsonObject[];
  /**
   * Where it comes from. Drawn seeds differ by it, and engines that run somebody's code show it to
   * that code. Default: it belongs to no run.
   */
  origin?: RequestOrigin;
}

/**
 * The seed of a request: the one that somebody wrote, or else one of its own, which follows from
 * the run's seed and the request's origin. So equal requests of a run get different answers, and
 * the same answers when they are processed again. Without an origin: the seed as it is.
 *
 * @example
 * const [first, second] = [0, 1].map((index) => ({ ...request, origin: { index, promptName } }));
 * requestSeed(first) === requestSeed(second); // false, unless `explicit` has "seed"
 */
export function requestSeed({ parameters, origin }: SeededRequest): number {
  const { seed, explicit } = parameters;
  if (origin === undefined || explicit?.includes("seed")) return seed;
  const { index, promptName, element = "" } = origin;
  return Number.parseInt(sha256Hex(`${seed}:${index}:${promptName}:${element}`).slice(0, 8), 16);
}

type SeededRequest = Pick<InferenceRequest, "parameters" | "origin">;

export type FinishReason = "stop" | "length" | "error";

/** A token that might have been, and its natural logarithm of probability. */
export interface TokenAlternative {
  /** Its text; where a token is part of a character, the engine says how it writes it. */
  token: string;
  /** Natural logarithm of its probability, finite, at most 0. */
  logprob: number;
}

/**
 * One token of an answer, with `GenerationParameters.logprobs` alternatives, the likeliest first.
 * The token itself is among them only if it was that likely.
 */
export interface TokenLogprob extends TokenAlternative {
  alternatives: readonly TokenAlternative[];
}

export interface Answer {
  text: string;
  /** The structured form, where the request asked for one. */
  value?: Json;
  /** Where the words of fields that copy stand in their sources, by JSON Pointer into `value`. */
  spans?: Readonly<Record<string, SpanOffsets>>;
  /** Calls of the request's tools. */
  toolCalls?: readonly ToolCall[];
  finishReason: FinishReason;
  /** Tokens of this answer. */
  tokens: number;
  /** Each token in order, where the request asked for `logprobs`. */
  logprobs?: readonly TokenLogprob[];
}

/** Tokens that were paid for. */
export interface Usage {
  promptTokens: number;
  /** Those of `promptTokens` that a cache served. */
  cachedTokens: number;
  completionTokens: number;
}

export interface InferenceResponse {
  answers: readonly Answer[];
  usage: Usage;
  /**
   * What the row became, from an engine that turns a row into rows. These stand among the results
   * in its place; none of them means that it was filtered. Absent where the answers go into the
   * row. They may hold what `TypedJson` has beyond JSON.
   */
  rows?: readonly JsonObject[];
  /** Rows of one joint request that failed by themselves, by their places. */
  failures?: ReadonlyMap<number, Error>;
  /** It was answered before, by this run or another one: nothing was paid for it. */
  reused?: boolean;
  /** Time from asking to answering. */
  seconds: number;
}

/** A piece of an answer, told while the answer is made. */
export interface AnswerDelta {
  /** Which of the request's answers it continues, from 0. */
  choice: number;
  /** What comes next in the answer's text; never empty, and never taken back. */
  text: string;
  /** Tokens since the delta before, where the engine counts them. */
  tokens?: number;
}

/** Called with each delta, in order. It must not throw. */
export type OnDelta = (delta: AnswerDelta) => void;

export const noUsage: Usage = Object.freeze({
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
});

/** The sum of two usages. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    completionTokens: a.completionTokens + b.completionTokens,
  };
}
