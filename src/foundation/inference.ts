import type { Grammar } from "./grammar.ts";
import { sha256Hex } from "./hashing.ts";
import type { Json, JsonObject } from "./json.ts";
import type { TraceContext } from "./telemetry.ts";

/** A part of a message: text, an image, or audio. */
export type ContentPart =
  | { type: "text"; text: string }
  /** @param url its address, or the image itself as `data:image/png;base64,…`. */
  | { type: "image"; url: string; detail?: "auto" | "low" | "high" }
  /** @param data the audio's bytes in base64. */
  | { type: "audio"; data: string; format: "wav" | "mp3" };

/** A call of a tool, as OpenAI's chat completions have it. */
export type ToolCall = {
  id: string;
  type: "function";
  /** @param arguments JSON as the model wrote it; it may be invalid. */
  function: { name: string; arguments: string };
};

/** A message of text alone, as prompts make them. */
export interface TextMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** One message of a conversation. */
export type ChatMessage =
  | { role: "system" | "user"; content: string | readonly ContentPart[] }
  | {
      role: "assistant";
      /** May be empty if the message calls tools. */
      content: string | readonly ContentPart[];
      toolCalls?: readonly ToolCall[];
    }
  /** The result of the tool call with that id. */
  | { role: "tool"; content: string | readonly ContentPart[]; toolCallId: string };

/**
 * The text of a message; several parts are joined by line breaks.
 *
 * @example
 * contentText([{ type: "text", text: "One" }, { type: "text", text: "Two" }]); // "One\nTwo"
 */
export function contentText(content: ChatMessage["content"]): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");
}

/** Which tools an answer calls: none, any or none (`auto`), at least one, or the named one. */
export type ToolChoice =
  | "none"
  | "auto"
  | "required"
  | { type: "function"; function: { name: string } };

/**
 * How an answer is sampled. Values are final when an engine gets them; an optional one that is
 * absent has the default that it names.
 */
export interface SamplingParameters {
  /**
   * Most tokens of an answer; with `maxLength`, a bound that no answer reaches. If the job does not
   * set it (`explicit`), it is the engine's default and servers do not get it.
   */
  maxNewTokens: number;
  /** 0 = always the likeliest token. */
  temperature: number;
  /**
   * Sample only from the likeliest tokens that make up this share of probability, 0 to 1; 1 = all.
   */
  topP: number;
  /** Sample only from this many likeliest tokens; 0 = all. */
  topK: number;
  /** Least probability of a token relative to the likeliest one, 0 to 1; 0 = all. */
  minP: number;
  /** Above 1, tokens that are already present become less likely; 1 = off. */
  repetitionPenalty: number;
  presencePenalty: number;
  frequencyPenalty: number;
  /**
   * Same seed, same request, same engine: same answer, as far as the engine can promise it. If the
   * job does not set it (`explicit`), the run drew it by chance: servers do not get it, and engines
   * on this machine derive a seed for each request from it (`requestSeed`).
   */
  seed: number;
  /** Texts that end the answer. They are not part of it. */
  stop: readonly string[];
  /**
   * Most tokens of prompt and answer together, counted by the engine. A prompt that leaves no token
   * for an answer is too long. Default: only `maxNewTokens` counts.
   */
  maxLength?: number;
  /** Continue after the model ends the answer, up to the limit of tokens; default false. */
  ignoreEos?: boolean;
  /** Answers to one prompt, each sampled separately; default 1. */
  numReturnSequences?: number;
  /** Number of beams of a beam search; default 1 = no beam search. */
  numBeams?: number;
  /**
   * In a beam search, the log probability of a sequence is divided by its length to this power:
   * above 0, longer answers win more often. Default: the model's own setting, or 1.
   */
  lengthPenalty?: number;
  /**
   * When a beam search ends. `true`: when as many sequences are finished as there are beams.
   * `false`: when no running beam is likely to do better. `"never"`: when none can do better.
   * Default: the model's own setting, or `false`.
   */
  earlyStopping?: boolean | "never";
  /** How many of the likeliest tokens are reported for each token of an answer; default 0. */
  logprobs?: number;
  /**
   * Whether a `prompt` (not a chat) begins with the model's begin-of-text token. Default: as the
   * model's tokenizer decides.
   */
  prependBos?: boolean;
  /**
   * Names of the parameters that the job or request set. A server gets these even if they equal a
   * default; the others are left to its own defaults. Default: none.
   */
  explicit?: readonly string[];
}

/**
 * Parameters of a plain request: always the likeliest token, out of all, without a penalty. There
 * is no such default for `maxNewTokens` and `seed`.
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

/** The temperature of `doSample: true` where no temperature is written. */
export const samplingTemperature = 1;

/** The temperature that `doSample` and `temperature` mean together. */
export function temperatureOf(sampling: {
  doSample?: boolean | undefined;
  temperature?: number | undefined;
}): number {
  const { doSample, temperature } = sampling;
  if (doSample === false) return 0;
  return temperature ?? (doSample === true ? samplingTemperature : greedyParameters.temperature);
}

/** Characters of a request's words. */
export function promptCharacters({
  messages = [],
  prompt = "",
}: Pick<InferenceRequest, "messages" | "prompt">): number {
  return messages.reduce((sum, { content }) => sum + contentText(content).length, prompt.length);
}

/** Tokens of so many characters, where nobody knows the tokenizer: one for each four. */
export const estimatedTokens = (characters: number): number => Math.ceil(characters / 4);

/** The values of optional parameters that a request leaves out. */
export const leftOutParameters = Object.freeze({
  ignoreEos: false,
  numReturnSequences: 1,
  numBeams: 1,
  logprobs: 0,
});

/** What to do with a prompt that does not fit the model's context. */
export type TooLongPolicy = "fail" | "truncate-left" | "truncate-right";

/** One slot of a line whose slots are only copied from a text. */
export interface Slot {
  name: string;
  /** The text from which the slot copies consecutive words. */
  source: string;
  /** What the slot holds if the text has nothing to copy. */
  orElse: string;
  /** Most words that may be copied. */
  maxWords: number;
  /** A regular expression (JavaScript syntax, flags `iu`) that the whole copied text must match. */
  pattern?: string;
}

/**
 * An answer of one line with slots. `line` is a template such as `temperature={temperature},
 * duration={duration}`; each `{name}` is one of `slots`.
 */
export interface SlottedLine {
  line: string;
  slots: readonly Slot[];
}

/** A form of JSON that an answer must have, in both languages that engines understand. */
export interface AnswerStructure {
  /** JSON Schema. */
  schema: JsonObject;
  /** The same as a grammar, for engines that enforce grammars. */
  grammar: Grammar;
  /** The fields that copy from a text, for the check of the answer; `name` is the field's key. */
  copies?: readonly Slot[];
  /** True if any JSON object will do: servers have a mode for that. */
  isAnyObject?: boolean;
}

/** Where copied words stand in their source, in UTF-16 units: `source.slice(start, end)`. */
export type SpanOffsets = readonly [start: number, end: number];

/**
 * Token ids of a prompt in parts that alternate: chat template, content, chat template, … The first
 * part is the template's and may be empty. A prompt that is too long is cut in its contents only.
 */
export type PromptTokens = readonly (readonly number[])[];

/** The place in a run that a request comes from. */
export interface RequestOrigin {
  /** The row's stable index in the input. */
  index: number;
  promptName: string;
  /** Place in the list of a `forEach` prompt, from 0. */
  element?: number;
}

/** The origin of a request that belongs to no run, such as one sent to a server. */
export const noOrigin: RequestOrigin = Object.freeze({ index: 0, promptName: "request" });

/** How the speech in a file becomes text. */
export interface Transcription {
  /** The text is in English, whatever language is spoken. Default: in the spoken language. */
  translate?: boolean;
  /** The spoken language, such as `de`. Default: the engine's, or what the model hears. */
  language?: string;
  /** Text that guides the model, such as names that occur. */
  prompt?: string;
  /** The answer's `value` is a `TimedTranscript` with these. Default: the answer is the text. */
  times?: readonly ("segment" | "word")[];
}

/** A transcript with its times in seconds, as `verbose_json` of OpenAI has it. */
export type TimedTranscript = {
  text: string;
  language?: string;
  duration?: number;
  segments?: { id: number; start: number; end: number; text: string }[];
  words?: { word: string; start: number; end: number }[];
};

/** One request to a model. It has `messages` or `prompt`, unless the engine reads rows. */
export interface InferenceRequest {
  messages?: readonly ChatMessage[];
  /** Sent to the model unchanged (`api: completion`). */
  prompt?: string;
  /** Tokens that the engine's `tokenize` made of these words, so that it need not repeat that. */
  tokens?: PromptTokens;
  parameters: SamplingParameters;
  /**
   * What to do if the prompt is too long. Only an engine that counts tokens can cut. Default
   * `fail`.
   */
  onTooLong?: TooLongPolicy;
  /** The answer must be this line. Its slots only copy. */
  slottedLine?: SlottedLine;
  /**
   * The answer must be JSON of this schema. Engines enforce it if they can; the caller checks the
   * answer in any case.
   */
  structure?: AnswerStructure;
  /** For chats: tools that the answer may call, as OpenAI's chat completions have them. */
  tools?: readonly JsonObject[];
  /** Default: `auto` if there are tools. An object is passed to the server as it is. */
  toolChoice?: ToolChoice | JsonObject;
  /** Whether one answer may call several tools. Default: the server's. */
  parallelToolCalls?: boolean;
  /**
   * The texts that the arguments of a tool may be, by the tool's name: of all `tools`, for engines
   * that enforce them.
   */
  argumentGrammars?: Readonly<Record<string, Grammar>>;
  /** Requests the embedding of `prompt`: the answer's `value` is an array of numbers. */
  embed?: boolean;
  /**
   * Path of an audio file to transcribe, in place of words. With `messages`: path of an image that
   * the first user message shows.
   */
  file?: string;
  /** How `file` is transcribed, beside `parameters`. Default: as the engine does it. */
  transcription?: Transcription;
  /** The row itself, for engines that read more than the words. */
  row?: JsonObject;
  /** Rows that are sent as one request and share one outcome; the first of them is `row`. */
  rows?: readonly JsonObject[];
  /**
   * Where the request comes from. Derived seeds depend on it, and engines that run user code pass
   * it on to that code. Default: it belongs to no run.
   */
  origin?: RequestOrigin;
  /** The span that it belongs to. */
  trace?: TraceContext;
}

/**
 * The seed of a request: the seed that the job set, or one derived from the run's seed and the
 * request's origin. With a derived seed, equal requests of a run get different answers, and a row
 * that is processed again gets the same answer again. Without an origin: the seed as it is.
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

/** A token that the model considered, with its probability. */
export interface TokenAlternative {
  /** Its text. If a token is only part of a character, the engine decides how to write it. */
  token: string;
  /** Natural logarithm of its probability, finite, at most 0. */
  logprob: number;
}

/**
 * One token of an answer and the likeliest tokens at its place, likeliest first: as many as
 * `SamplingParameters.logprobs` says. The token itself is among them only if it was that likely.
 */
export interface TokenLogprob extends TokenAlternative {
  alternatives: readonly TokenAlternative[];
}

export interface Answer {
  text: string;
  /** The answer as a value, if the request asked for a structure or a vector. */
  value?: Json;
  /** Where the words of copied fields stand in their sources, by JSON Pointer into `value`. */
  spans?: Readonly<Record<string, SpanOffsets>>;
  /** Calls of the request's tools. */
  toolCalls?: readonly ToolCall[];
  finishReason: FinishReason;
  /** Tokens of this answer. */
  tokens: number;
  /** Each token in order, where the request asked for `logprobs`. */
  logprobs?: readonly TokenLogprob[];
}

/** Tokens of a request and its answers. */
export interface Usage {
  promptTokens: number;
  /** Prompt tokens, among `promptTokens`, that came from a cache. */
  cachedTokens: number;
  completionTokens: number;
}

export interface InferenceResponse {
  answers: readonly Answer[];
  usage: Usage;
  /**
   * The rows that replace the request's row among the results, from an engine that turns rows into
   * rows. An empty list means that the row was filtered out. Absent if the answers are added to the
   * row. The rows may hold `TypedJson`, which has more than JSON.
   */
  rows?: readonly JsonObject[];
  /** Rows of a joint request that failed individually, by their places in its `rows`, from 0. */
  failures?: ReadonlyMap<number, Error>;
  /** The answer was taken from this run or an earlier one; nothing was paid for it. */
  reused?: boolean;
  /** Time between sending the request and its answer. */
  seconds: number;
}

/** A piece of an answer, reported while the answer is made. */
export interface AnswerDelta {
  /** Number of the answer that it continues, from 0. */
  choice: number;
  /** The next piece of the answer's text; never empty, and never withdrawn. */
  text: string;
  /** Tokens since the previous delta, if the engine counts them. */
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

/** The growth of `now` since `before`; nothing falls. */
export function usageSince(now: Usage, before: Usage): Usage {
  const since = (key: keyof Usage) => Math.max(0, now[key] - before[key]);
  return {
    promptTokens: since("promptTokens"),
    cachedTokens: since("cachedTokens"),
    completionTokens: since("completionTokens"),
  };
}
