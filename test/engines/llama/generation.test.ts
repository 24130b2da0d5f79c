import { describe, expect, it } from "vitest";
import { Generation } from "../../../src/engines/llama/generation.ts";
import type { GenerationParameters } from "../../../src/foundation/inference.ts";
import { endToken, tinyVocabulary, tokenizeGreedily } from "./tiny-vocabulary.ts";

const vocabulary = tinyVocabulary();
const defaults: GenerationParameters = {
  maxNewTokens: 100,
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  seed: 0,
  stop: [],
};

/** An answer made of the tokens of `text`, as far as it goes, then the end. */
function generate(text: string, parameters: Partial<GenerationParameters>) {
  const generation = new Generation({
    prompt: [5],
    parameters: { ...defaults, ...parameters },
    vocabulary,
  });
  generation.begin();
  for (const token of [...tokenizeGreedily(vocabulary, text), endToken]) {
    if (!generation.isDone) generation.take(token);
  }
  return generation.answer();
}

describe("Generation", () => {
  it("ends with the model's end, which is no text and no token of the answer", () => {
    expect(generate("5 minutes", {})).toEqual({
      text: "5 minutes",
      finishReason: "stop",
      tokens: 2,
    });
  });

  it("puts characters together that tokens cut", () => {
    expect(generate("½ 🍞", {}).text).toBe("½ 🍞");
  });

  it("cuts the text before the earliest stop, which may lie across tokens", () => {
    const answer = generate("10 minutes, none", { stop: ["none", "utes,"] });
    expect(answer).toMatchObject({ text: "10 min", finishReason: "stop" });
  });

  it("ends at the limit of tokens, without half a character", () => {
    expect(generate("5½", { maxNewTokens: 2 })).toEqual({
      text: "5",
      finishReason: "length",
      tokens: 2,
    });
  });

  it("prefers a stop to the limit when one token brings both", () => {
    expect(generate("5", { maxNewTokens: 1, stop: ["5"] })).toMatchObject({
      text: "",
      finishReason: "stop",
    });
  });

  it("asks for penalties only where there are some, over prompt and answer", () => {
    const generation = new Generation({
      prompt: [5, 6],
      parameters: { ...defaults, repetitionPenalty: 1.2 },
      vocabulary,
    });
    generation.begin();
    generation.take(7);
    expect([...(generation.config().repeatPenaltyTokens ?? [])]).toEqual([5, 6, 7]);
    const plain = new Generation({ prompt: [5], parameters: defaults, vocabulary });
    expect(plain.config().repeatPenaltyTokens).toBeUndefined();
  });
});
