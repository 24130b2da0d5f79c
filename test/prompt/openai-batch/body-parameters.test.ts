import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import {
  parametersOfBody,
  type RequestKind,
} from "../../../src/prompt/openai-batch/body-parameters.ts";

const read = (body: JsonObject, kind: RequestKind = "chat") =>
  parametersOfBody({ messages: [], ...body }, kind, ["messages"]);

describe("parametersOfBody", () => {
  it("reads every parameter by our names", () => {
    const body = {
      max_tokens: 7,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.1,
      repetition_penalty: 1.2,
      presence_penalty: -1,
      frequency_penalty: 2,
      seed: 5,
      stop: ["a", "b"],
      n: 3,
      ignore_eos: true,
    };
    expect(read(body)).toEqual({
      maxNewTokens: 7,
      temperature: 0.5,
      topP: 0.9,
      topK: 40,
      minP: 0.1,
      repetitionPenalty: 1.2,
      presencePenalty: -1,
      frequencyPenalty: 2,
      seed: 5,
      stop: ["a", "b"],
      numReturnSequences: 3,
      ignoreEos: true,
    });
    expect(read({})).toEqual({});
  });

  it("takes the newer name of a limit before the older, whichever comes first", () => {
    expect(read({ max_completion_tokens: 9, max_tokens: 3 })).toEqual({ maxNewTokens: 9 });
    expect(read({ max_tokens: 3, max_completion_tokens: 9 })).toEqual({ maxNewTokens: 9 });
  });

  it("takes one stop, all of top_k by vLLM's -1, and null for absent", () => {
    expect(read({ stop: "END" })).toEqual({ stop: ["END"] });
    expect(read({ top_k: -1 })).toEqual({ topK: 0 });
    expect(read({ temperature: null, tools: null, stop: null })).toEqual({});
  });

  it("reads logprobs of a chat and of a completion", () => {
    expect(read({ logprobs: false })).toEqual({});
    expect(read({ logprobs: true })).toEqual({ logprobs: 1 });
    expect(read({ logprobs: true, top_logprobs: 5 })).toEqual({ logprobs: 5 });
    expect(read({ logprobs: true, top_logprobs: 0 })).toEqual({ logprobs: 1 });
    expect(read({ logprobs: 4 }, "completion")).toEqual({ logprobs: 4 });
    expect(() => read({ top_logprobs: 3 })).toThrow(/top_logprobs/);
    expect(() => read({ logprobs: true, top_logprobs: 21 })).toThrow(/from 0 to 20/);
  });

  it("passes what changes no answer, and what asks for nothing", () => {
    const body = {
      user: "me",
      metadata: { a: 1 },
      store: true,
      stream: false,
      tools: [],
      logit_bias: {},
    };
    expect(read(body)).toEqual({});
    expect(read({ encoding_format: "float" }, "embedding")).toEqual({});
  });

  it.each([
    ["stream", true],
    ["tools", [{ type: "function" }]],
    ["logit_bias", { "50256": -100 }],
    ["reasoning_effort", "high"],
    ["use_beam_search", true],
  ])("refuses %s by name, and drops nothing", (name, value) => {
    const refusal = { code: "PARAMETER_UNSUPPORTED", place: { field: `body.${name}` } };
    expect(() => read({ [name]: value })).toThrow(expect.objectContaining(refusal));
  });

  it.each([
    ["tools", [{ type: "function" }]],
    ["functions", [{ name: "f" }]],
    ["tool_choice", "required"],
    ["function_call", { name: "f" }],
  ])("says what to do about %s", (name, value) => {
    expect(() => read({ [name]: value })).toThrow(/no tools are called: .* response_format/);
  });

  it("names the field that was meant", () => {
    expect(() => read({ temprature: 1 })).toThrow("did you mean temperature?");
  });

  it.each([
    ["temperature", 11],
    ["temperature", "1"],
    ["top_p", 0],
    ["top_k", -2],
    ["max_tokens", 0],
    ["max_tokens", 1.5],
    ["n", 129],
    ["seed", -1],
    ["stop", [1]],
    ["ignore_eos", "yes"],
  ])("refuses %s: %j", (name, value) => {
    const refusal = { code: "PARAMETER_INVALID", place: { field: `body.${name}` } };
    expect(() => read({ [name]: value })).toThrow(expect.objectContaining(refusal));
  });

  it("knows no sampling in a request for an embedding", () => {
    expect(() => read({ temperature: 1 }, "embedding")).toThrow(/not supported/);
  });
});
