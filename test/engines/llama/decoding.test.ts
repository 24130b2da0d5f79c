import { describe, expect, it } from "vitest";
import { Decoding } from "../../../src/engines/llama/decoding.ts";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import { Speller } from "../../../src/engines/llama/speller.ts";
import type { GrammarNode } from "../../../src/foundation/grammar.ts";
import { greedyParameters, type SamplingParameters } from "../../../src/foundation/inference.ts";
import { endToken, tinyVocabulary, tokenizeGreedily } from "./tiny-vocabulary.ts";

const vocabulary = tinyVocabulary();
const defaults: SamplingParameters = {
  ...greedyParameters,
  maxNewTokens: 100,
  seed: 0,
};

/** An answer made of the tokens of `text`, as far as it goes, then the end. */
function generate(text: string, parameters: Partial<SamplingParameters>) {
  const decoding = new Decoding({
    prompt: [5],
    parameters: { ...defaults, ...parameters },
    vocabulary,
  });
  decoding.begin();
  for (const token of [...tokenizeGreedily(vocabulary, text), endToken]) {
    if (!decoding.isDone) decoding.take(token);
  }
  return decoding.answer();
}

function beforeStop(text: string, stop: readonly string[]): string {
  const places = stop.map((each) => text.indexOf(each)).filter((place) => place >= 0);
  return text.slice(0, Math.min(text.length, ...places));
}

describe("Decoding", () => {
  it("ends with the model's end, which is no text and no token of the answer", () => {
    expect(generate("5 minutes", {})).toEqual({
      text: "5 minutes",
      finishReason: "stop",
      tokens: 2,
    });
  });

  it.each([
    ["nothing to stop at", "5 minutes, größer 😀 yes", []],
    ["a stop text that comes", "5 minutes and more", ["tes a"]],
    ["one that only begins to come", "aab aaab", ["aaaa"]],
    ["one within another", "xyxyz end", ["xyz", "yxyq"]],
    ["one that begins the answer", "5 minutes", ["5"]],
  ])("tells all of the answer and nothing else, with %s", (_, text, stop) => {
    const parameters = { ...defaults, stop };
    const decoding = new Decoding({ prompt: [5], parameters, vocabulary });
    decoding.begin();
    const deltas: string[] = [];
    for (const byte of Buffer.from(text)) {
      if (!decoding.isDone) decoding.take(vocabulary.size - 256 + byte);
      deltas.push(decoding.takeDelta()?.text ?? "");
    }
    if (!decoding.isDone) decoding.take(endToken);
    deltas.push(decoding.takeDelta()?.text ?? "");
    expect(deltas.join("")).toBe(decoding.answer().text);
    expect(decoding.answer().text).toBe(beforeStop(text, stop));
  });

  it("tells nothing of a character that was cut", () => {
    const parameters = { ...defaults, maxNewTokens: 3 };
    const decoding = new Decoding({ prompt: [5], parameters, vocabulary });
    decoding.begin();
    for (const byte of Buffer.from("a😀").subarray(0, 3)) {
      decoding.take(vocabulary.size - 256 + byte);
    }
    expect(decoding.takeDelta()).toEqual({ text: "a", tokens: 3 });
    expect(decoding.takeDelta()).toBeUndefined();
    expect(decoding.answer()).toEqual({ text: "a", finishReason: "length", tokens: 3 });
  });

  it("never ends where ends are to be ignored", () => {
    const parameters = { ...defaults, ignoreEos: true };
    const { tokenBiasKeys, tokenBiasValues } = new Decoding({
      prompt: [5],
      parameters,
      vocabulary,
    }).config();
    expect(tokenBiasKeys).toEqual(Uint32Array.of(endToken));
    expect(tokenBiasValues).toEqual(Float32Array.of(Number.NEGATIVE_INFINITY));
  });

  it("lists each token with its probability, and not the end", () => {
    const parameters = { ...defaults, logprobs: 1 };
    const decoding = new Decoding({ prompt: [5], parameters, vocabulary });
    decoding.begin();
    const five = tokenizeGreedily(vocabulary, "5")[0]!;
    const likeliest = [{ token: five, logProbability: -0.5 }];
    decoding.take(five, { chosen: Number.NEGATIVE_INFINITY, top: likeliest });
    decoding.take(endToken, { chosen: 0, top: [{ token: endToken, logProbability: 0 }] });
    expect(decoding.answer().logprobs).toEqual([
      { token: "5", logprob: -9999, alternatives: [{ token: "5", logprob: -0.5 }] },
    ]);
  });

  describe("of a form", () => {
    const text = (value: string): GrammarNode => ({ kind: "text", text: value });
    const letters: GrammarNode = { kind: "characters", ranges: [[0x23, 0x10ffff]] };
    const string: GrammarNode = {
      kind: "sequence",
      items: [text('["'), { kind: "repeat", item: letters, min: 0 }, text('"]')],
    };
    const begun = (maxNewTokens: number) => {
      const tokenize = (value: string) => tokenizeGreedily(vocabulary, value);
      const automaton = new GrammarAutomaton({ root: string, rules: {} });
      const speller = new Speller(automaton, vocabulary, tokenize, [endToken]);
      const parameters = { ...defaults, maxNewTokens, ignoreEos: true };
      const decoding = new Decoding({ prompt: [5], parameters, vocabulary, speller });
      decoding.begin();
      return decoding;
    };
    const five = tokenizeGreedily(vocabulary, "5")[0]!;

    it("refuses what may not come, and then lists what may", () => {
      const decoding = begun(20);
      expect(decoding.config().tokenBiasKeys).toBeUndefined();
      expect(decoding.refuses(five)).toBe(false);
      expect(decoding.refuses(endToken)).toBe(true);
      expect(decoding.config().tokenBiasKeys).toContain(endToken);
      decoding.take(five);
      expect(decoding.config().tokenBiasKeys).toBeUndefined();
    });

    it("is brought to its end where the tokens run out", () => {
      const decoding = begun(8);
      while (!decoding.isDone) decoding.take(five);
      const answer = decoding.answer();
      expect(answer.text).toMatch(/^\["5+"\]$/);
      expect(answer).toMatchObject({ finishReason: "length" });
      expect(answer.tokens).toBeLessThanOrEqual(8);
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
    const decoding = new Decoding({
      prompt: [5, 6],
      parameters: { ...defaults, repetitionPenalty: 1.2 },
      vocabulary,
    });
    decoding.begin();
    decoding.take(7);
    expect([...(decoding.config().repeatPenaltyTokens ?? [])]).toEqual([5, 6, 7]);
    const long = new Decoding({
      prompt: [5, ...Array.from({ length: 64 }, () => 6)],
      parameters: { ...defaults, repetitionPenalty: 1.2 },
      vocabulary,
    });
    long.begin();
    long.take(7);
    const window = [...(long.config().repeatPenaltyTokens ?? [])];
    expect([window.length, window.at(-1), window.includes(5)]).toEqual([64, 7, false]);
    const plain = new Decoding({ prompt: [5], parameters: defaults, vocabulary });
    expect(plain.config().repeatPenaltyTokens).toBeUndefined();
  });
});
