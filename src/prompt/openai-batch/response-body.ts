import { asSluiceError } from "../../foundation/errors.ts";
import {
  type Answer,
  addUsage,
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type TokenLogprob,
  type Usage,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { changedPromptSet, type PromptSet } from "../prompt-set.ts";

/**
 * Makes a row's answer the body of an OpenAI response, without `id` and `created`, which the run
 * adds.
 *
 * @param model the model's name in the bodies.
 */
export function withResponseBodies(promptSet: PromptSet, model: string): PromptSet {
  return changedPromptSet(promptSet, {
    accept: (request, response) => acceptUnlessCut(promptSet, request, response),
    answer: (requests, responses) => responseBody(requests, responses, model),
    partialAnswer: () => null,
  });
}

/**
 * An answer that was cut off has no form, and would have none the next time. The body says so, by
 * its `finish_reason`, as OpenAI's does.
 */
function acceptUnlessCut(
  promptSet: PromptSet,
  request: InferenceRequest,
  response: InferenceResponse,
): InferenceResponse {
  try {
    return promptSet.accept(request, response);
  } catch (error) {
    const isCut = response.answers.some(({ finishReason }) => finishReason === "length");
    if (isCut && request.structure && asSluiceError(error).code === "ANSWER_INVALID") {
      return response;
    }
    throw error;
  }
}

/** A chat completion, a text completion or a list of embeddings, depending on the request. */
function responseBody(
  requests: readonly InferenceRequest[],
  responses: readonly (InferenceResponse | undefined)[],
  model: string,
): JsonObject {
  const [request] = requests;
  const answers = responses.flatMap((response) => response?.answers ?? []);
  const usage = responses.reduce((sum, it) => (it ? addUsage(sum, it.usage) : sum), noUsage);
  if (request?.embed) return embeddings(answers, model, usage);
  const isChat = request?.messages !== undefined;
  const choices = answers.map(isChat ? chatChoice : textChoice);
  return {
    object: isChat ? "chat.completion" : "text_completion",
    model,
    choices,
    usage: usageOf(usage),
  };
}

function chatChoice(answer: Answer, index: number): JsonObject {
  const { text, logprobs, toolCalls } = answer;
  const content = toolCalls && text === "" ? null : text;
  const message: JsonObject = { role: "assistant", content, refusal: null };
  if (toolCalls) message.tool_calls = [...toolCalls];
  return {
    index,
    message,
    logprobs: logprobs === undefined ? null : { content: logprobs.map(chatLogprob), refusal: null },
    finish_reason: finishReasonOf(answer),
  };
}

const finishReasonOf = ({ toolCalls, finishReason }: Answer) =>
  toolCalls && finishReason === "stop" ? "tool_calls" : finishReason;

function chatLogprob({ token, logprob, alternatives }: TokenLogprob): JsonObject {
  return {
    token,
    logprob,
    bytes: [...Buffer.from(token)],
    top_logprobs: alternatives.map((other) => ({
      token: other.token,
      logprob: other.logprob,
      bytes: [...Buffer.from(other.token)],
    })),
  };
}

function textChoice(answer: Answer, index: number): JsonObject {
  const { text, logprobs } = answer;
  return {
    index,
    text,
    logprobs: logprobs === undefined ? null : textLogprobs(logprobs),
    finish_reason: finishReasonOf(answer),
  };
}

function textLogprobs(tokens: readonly TokenLogprob[]): JsonObject {
  let offset = 0;
  const offsets = tokens.map(({ token }) => {
    const start = offset;
    offset += token.length;
    return start;
  });
  return {
    tokens: tokens.map(({ token }) => token),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ alternatives }) =>
      Object.fromEntries(alternatives.map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: offsets,
  };
}

function embeddings(answers: readonly Answer[], model: string, usage: Usage): JsonObject {
  const data = answers.map(({ value }, index) => ({
    object: "embedding",
    index,
    embedding: value ?? null,
  }));
  const { promptTokens } = usage;
  return {
    object: "list",
    model,
    data: data as Json,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  };
}

function usageOf({ promptTokens, cachedTokens, completionTokens }: Usage): JsonObject {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}
