import { SluiceError } from "../../foundation/errors.ts";
import {
  estimatedTokens,
  type FinishReason,
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  noUsage,
  promptCharacters,
  type TextMessage,
} from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { oneOf, shown } from "../../foundation/suggest.ts";
import type { BatchCost } from "./next-batch.ts";

/** The keys of an answer: an object with these keys and no others is one. */
const answerKeys = new Set(["text", "finishReason", "promptTokens", "completionTokens"]);

const finishReasons: readonly FinishReason[] = ["stop", "length", "error"];

/**
 * The response for a result of the user's code. A text, and an object with `text` and only
 * `finishReason`, `promptTokens` and `completionTokens` beside it, is an answer in text; any other
 * JSON value is the answer's value.
 *
 * @param seconds the time of its batch.
 * @returns an error if the object says an unknown reason, or a number of tokens that is none.
 * @example
 * predictionResponse({ label: "good", score: 0.9 }, 0.2).answers[0].value; // the same object
 * predictionResponse({ text: "Yes.", completionTokens: 2 }, 0.2).answers[0].text; // "Yes."
 */
export function predictionResponse(result: Json, seconds: number): InferenceResponse | SluiceError {
  if (typeof result === "string") return wordsResponse(result, {}, seconds);
  if (isJsonObject(result) && typeof result.text === "string" && isAnswer(result)) {
    return problemOf(result) ?? wordsResponse(result.text, result, seconds);
  }
  const answer = { text: JSON.stringify(result), value: result, finishReason: "stop", tokens: 0 };
  return { answers: [answer as typeof answer & { finishReason: "stop" }], usage: noUsage, seconds };
}

function wordsResponse(text: string, said: JsonObject, seconds: number): InferenceResponse {
  const [promptTokens, tokens] = [countOf(said.promptTokens), countOf(said.completionTokens)];
  const finishReason = (said.finishReason ?? "stop") as FinishReason;
  return {
    answers: [{ text, finishReason, tokens }],
    usage: { promptTokens, cachedTokens: 0, completionTokens: tokens },
    seconds,
  };
}

function isAnswer(result: JsonObject): boolean {
  return Object.keys(result).every((key) => answerKeys.has(key));
}

function countOf(said: Json | undefined): number {
  return typeof said === "number" ? said : 0;
}

function problemOf(said: JsonObject): SluiceError | undefined {
  const reason = said.finishReason ?? "stop";
  if (!finishReasons.some((each) => each === reason)) {
    return new SluiceError("PREDICTION_FAILED", `finishReason ${oneOf(reason, finishReasons)}`);
  }
  for (const key of ["promptTokens", "completionTokens"]) {
    const count = said[key] ?? 0;
    if (Number.isSafeInteger(count) && Number(count) >= 0) continue;
    const detail = `${key} must be a whole number of 0 or more, not ${shown(count)}`;
    return new SluiceError("PREDICTION_FAILED", detail);
  }
  return undefined;
}

/** What the user's code learns of each request, in a form for JSON. */
export function itemFacts(request: InferenceRequest) {
  const { prompt, origin = noOrigin } = request;
  // An engine without parts and tools gets only text.
  const messages = request.messages as readonly TextMessage[] | undefined;
  const { index, promptName, element } = origin;
  return { index, promptName, element, prompt, messages };
}

/**
 * A request's share of a batch: its characters, and its tokens as estimated without a tokenizer.
 * For a row without text, its texts count.
 */
export function requestCost(request: InferenceRequest): BatchCost {
  const { messages, prompt, row = {} } = request;
  const hasWords = messages !== undefined || prompt !== undefined;
  const chars = hasWords ? promptCharacters(request) : charsOf(row);
  return { chars, tokens: Math.max(1, estimatedTokens(chars)) };
}

function charsOf(row: JsonObject): number {
  let chars = 0;
  for (const value of Object.values(row)) if (typeof value === "string") chars += value.length;
  return chars;
}
