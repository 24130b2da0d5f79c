import type { Json, JsonObject } from "./json.ts";

/** One message of a conversation. */
export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** How an answer is sampled. Every value is explicit by the time an engine sees it. */
export interface GenerationParameters {
  /** Most tokens an answer may have. */
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
  /** Same seed, same request, same engine: same answer, as far as the engine can promise it. */
  seed: number;
  /** Texts that end the answer; they are not part of it. */
  stop: readonly string[];
}

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

/** What an engine is asked for one prompt of one row. It has either `messages` or `prompt`. */
export interface InferenceRequest {
  /** The row's stable index in the input. */
  index: number;
  promptName: string;
  /** Position in the list of a `forEach` prompt. */
  element?: number;
  messages?: readonly ChatMessage[];
  /** Sent as it is (`api: completion`). */
  prompt?: string;
  parameters: GenerationParameters;
  onTooLong: TooLongPolicy;
  /** The answer must be this line, with slots that only copy. */
  slottedLine?: SlottedLine;
  /** Text that the prompt of other requests shares from its start, as a hint for prefix reuse. */
  row?: JsonObject;
}

export type FinishReason = "stop" | "length" | "error";

export interface Answer {
  text: string;
  /** The structured form, where the request asked for one. */
  value?: Json;
  finishReason: FinishReason;
  /** Tokens of this answer. */
  tokens: number;
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
  /** Time from asking to answering. */
  seconds: number;
}

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
