import { describe, expect, it } from "vitest";
import type {
  Answer,
  InferenceRequest,
  SamplingParameters,
  TokenLogprob,
} from "../../../src/foundation/inference.ts";
import { withResponseBodies } from "../../../src/prompt/openai-batch/response-body.ts";
import type { PromptSet } from "../../../src/prompt/prompt-set.ts";
import type { RowRequest } from "../../../src/prompt/row-request.ts";

const promptSet: PromptSet = {
  names: ["prompt"],
  requests: () => [],
  ready: (requests, _responses, at) => requests[at]!,
  accept: (_request, response) => response,
  reask: (request) => request,
  answer: () => "plain",
  partialAnswer: () => "plain",
};
const set = withResponseBodies(promptSet, "m");
const request = (changes: Partial<InferenceRequest>): RowRequest => ({
  origin: { index: 0, promptName: "prompt" },
  parameters: {} as SamplingParameters,
  ...(changes as object),
});
const bodyOf = (changes: Partial<InferenceRequest>, ...answers: Partial<Answer>[]) =>
  set.answer(
    [request(changes)],
    [
      {
        answers: answers.map((answer) => ({
          text: "Yes",
          finishReason: "stop",
          tokens: 2,
          ...answer,
        })),
        usage: { promptTokens: 5, cachedTokens: 1, completionTokens: 2 },
        seconds: 1,
      },
    ],
  );
const usage = {
  prompt_tokens: 5,
  completion_tokens: 2,
  total_tokens: 7,
  prompt_tokens_details: { cached_tokens: 1 },
};
const logprobs: TokenLogprob[] = [
  { token: "é", logprob: -0.5, alternatives: [{ token: "e", logprob: -1 }] },
  { token: " x", logprob: -0.25, alternatives: [] },
];

describe("withResponseBodies", () => {
  it("makes chat completions, one choice an answer", () => {
    expect(bodyOf({ messages: [] }, {}, { text: "No", finishReason: "length" })).toEqual({
      object: "chat.completion",
      model: "m",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Yes", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
        {
          index: 1,
          message: { role: "assistant", content: "No", refusal: null },
          logprobs: null,
          finish_reason: "length",
        },
      ],
      usage,
    });
  });

  it("makes text completions", () => {
    expect(bodyOf({ prompt: "p" }, {})).toEqual({
      object: "text_completion",
      model: "m",
      choices: [{ index: 0, text: "Yes", logprobs: null, finish_reason: "stop" }],
      usage,
    });
  });

  it("writes logprobs as each kind has them", () => {
    expect(bodyOf({ messages: [] }, { logprobs })).toMatchObject({
      choices: [
        {
          logprobs: {
            content: [
              {
                token: "é",
                logprob: -0.5,
                bytes: [195, 169],
                top_logprobs: [{ token: "e", logprob: -1, bytes: [101] }],
              },
              { token: " x", top_logprobs: [] },
            ],
          },
        },
      ],
    });
    expect(bodyOf({ prompt: "p" }, { logprobs })).toMatchObject({
      choices: [
        {
          logprobs: {
            tokens: ["é", " x"],
            token_logprobs: [-0.5, -0.25],
            top_logprobs: [{ e: -1 }, {}],
            text_offset: [0, 1],
          },
        },
      ],
    });
  });

  it("makes one list of a row's embeddings", () => {
    const response = (value: number[]) => ({
      answers: [{ text: "", value, finishReason: "stop" as const, tokens: 0 }],
      usage: { promptTokens: 2, cachedTokens: 0, completionTokens: 0 },
      seconds: 0,
    });
    const requests = [request({ embed: true }), request({ embed: true })];
    expect(set.answer(requests, [response([0.5]), response([1.5])])).toEqual({
      object: "list",
      model: "m",
      data: [
        { object: "embedding", index: 0, embedding: [0.5] },
        { object: "embedding", index: 1, embedding: [1.5] },
      ],
      usage: { prompt_tokens: 4, total_tokens: 4 },
    });
  });
});
