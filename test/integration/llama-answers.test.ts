import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlamaFrom } from "../../src/engines/llama/engine.ts";
import type { GrammarNode } from "../../src/foundation/grammar.ts";
import type { InferenceRequest } from "../../src/foundation/inference.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { complete } from "./llama-requests.ts";

const files = await findLlamaFiles();

const never = new AbortController().signal;

/** What can be asked of the embedded model beyond a plain answer. */
describe("llama", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let engine: Engine;
  const ask = (request: InferenceRequest) => engine.infer(request, never);

  beforeAll(async () => {
    if (files.missing !== undefined) return;
    engine = await openLlamaFrom({ ...files, sequences: 4, contextTokens: 512 }, engineContext);
  });
  afterAll(() => engine?.close());

  describe("several answers to one prompt", () => {
    const prompt = `${"The garden was full of people who had come to see it. ".repeat(6)}One said:`;
    const sampled = { temperature: 1, numReturnSequences: 3, maxNewTokens: 12 };

    it("differ, are the same under the same seed, and count the prompt once", async () => {
      const first = await ask(complete(prompt, sampled));
      const texts = first.answers.map(({ text }) => text);
      expect(new Set(texts).size).toBe(3);
      const one = await ask(complete(prompt, { ...sampled, numReturnSequences: 1 }));
      expect(one.usage.promptTokens).toBe(first.usage.promptTokens);
      expect(first.usage.completionTokens).toBe(
        first.answers.reduce((sum, { tokens }) => sum + tokens, 0),
      );
    });

    it("are all the likeliest one where nothing is sampled", async () => {
      const { answers } = await ask(complete(prompt, { numReturnSequences: 2 }));
      expect(answers[1]!.text).toBe(answers[0]!.text);
    });
  });

  it("tells answers as they come, and nothing of a stop text", async () => {
    const heard = async (stop: string[]) => {
      const request = complete("The capital of France is", { stop, numReturnSequences: 2 });
      const texts: string[][] = [[], []];
      const { answers } = await engine.infer(request, never, ({ choice, text }) => {
        texts[choice]!.push(text);
      });
      expect(texts.map((pieces) => pieces.join(""))).toEqual(answers.map(({ text }) => text));
      return texts;
    };
    const [pieces] = await heard([]);
    expect(pieces!.length).toBeGreaterThan(2);
    const stop = pieces!.join("").slice(10, 14);
    expect((await heard([stop])).flat().join("\n")).not.toContain(stop);
  });

  it("reports the probability of each token, and of the likeliest", async () => {
    const { answers } = await ask(
      complete("The capital of France is", { logprobs: 3, maxNewTokens: 8 }),
    );
    const [answer] = answers;
    const logprobs = answer!.logprobs!;
    expect(logprobs.map(({ token }) => token).join("")).toBe(answer!.text);
    for (const { token, logprob, alternatives } of logprobs) {
      expect(alternatives).toHaveLength(3);
      expect(alternatives[0]).toEqual({ token, logprob });
      const sum = alternatives.reduce((total, it) => total + Math.exp(it.logprob), 0);
      expect(sum).toBeGreaterThan(0);
      expect(sum).toBeLessThanOrEqual(1.0001);
    }
  });

  it("knows the probability of a token that is not the likeliest", async () => {
    const request = { temperature: 2, seed: 3, logprobs: 1, maxNewTokens: 12 };
    const { answers } = await ask(complete("Once upon a time", request));
    const unlikely = answers[0]!.logprobs!.filter(
      ({ token, alternatives }) => token !== alternatives[0]!.token,
    );
    expect(unlikely.length).toBeGreaterThan(0);
    for (const { logprob, alternatives } of unlikely) {
      expect(logprob).toBeLessThanOrEqual(alternatives[0]!.logprob);
    }
  });

  it("goes on past the model's end where told to", async () => {
    const content = "What is 2+2? Answer with one number.";
    const messages = [{ role: "user" as const, content }];
    const request = { ...complete("", { maxNewTokens: 60 }), prompt: undefined, messages };
    const ended = await ask(request);
    expect(ended.answers[0]!.finishReason).toBe("stop");
    const parameters = { ...request.parameters, ignoreEos: true };
    const { answers } = await ask({ ...request, parameters });
    expect(answers[0]).toMatchObject({ finishReason: "length", tokens: 60 });
  });

  it("keeps prompt and answer within a length of both", async () => {
    const prompt = "One, two, three, four, five, six, seven,";
    const { usage } = await ask(complete(prompt, { maxLength: 30, maxNewTokens: 1_000_000 }));
    expect(usage.promptTokens + usage.completionTokens).toBe(30);
    const tooLong = ask(complete(prompt, { maxLength: 5, maxNewTokens: 1_000_000 }));
    await expect(tooLong).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
  });

  it("begins a completion with the model's first token only where told to", async () => {
    const tokens = async (prependBos?: boolean) =>
      (await ask(complete("Hello", { prependBos, maxNewTokens: 1 }))).usage.promptTokens;
    expect((await tokens(true)) - (await tokens(false))).toBe(1);
  });

  describe("a structure", () => {
    const text = (value: string): GrammarNode => ({ kind: "text", text: value });
    const sequence = (...items: GrammarNode[]): GrammarNode => ({ kind: "sequence", items });
    const characters: GrammarNode = {
      kind: "characters",
      ranges: [
        [0x20, 0x21],
        [0x23, 0x5b],
        [0x5d, 0x10ffff],
      ],
    };
    const string = sequence(text('"'), { kind: "repeat", item: characters, min: 0 }, text('"'));
    const shades = ["red", "green", "blue"].map(text);
    const root = sequence(
      text('{"colour": "'),
      { kind: "choice", items: shades },
      text('", "reason": '),
      string,
      text("}"),
    );
    const structure = { schema: {}, grammar: { root, rules: {} } };
    const prompt = "The colour of a clear sky, and why, as JSON: ";

    it("is written as its grammar has it", async () => {
      const { answers } = await ask(complete(prompt, { maxNewTokens: 60 }, { structure }));
      const value = JSON.parse(answers[0]!.text) as Record<string, string>;
      expect(Object.keys(value)).toEqual(["colour", "reason"]);
      expect(["red", "green", "blue"]).toContain(value.colour);
    });

    it("is whole however few tokens it gets, and whatever is sampled", async () => {
      const asked = [1, 2, 3, 4, 5, 6].map(async (seed) => {
        const parameters = { maxNewTokens: 16 + seed, temperature: 1.5, seed };
        const { answers } = await ask(complete(prompt, parameters, { structure }));
        expect(answers[0]!.tokens).toBeLessThanOrEqual(parameters.maxNewTokens);
        return JSON.parse(answers[0]!.text) as Record<string, string>;
      });
      for (const value of await Promise.all(asked)) expect(value.reason).toBeTypeOf("string");
    });
  });

  const vector = async (text: string) =>
    (await ask(complete(text, {}, { embed: true }))).answers[0]!.value as number[];

  it("gives the same vectors for many texts at once, each at its place", async () => {
    const texts = Array.from({ length: 6 }, (_, at) => `${"word ".repeat(at * 12)}${at}`);
    const together = await Promise.all(texts.map(vector));
    for (const [at, text] of texts.entries()) expect(await vector(text)).toEqual(together[at]);
  });

  it("gives vectors that are near where texts mean the same", async () => {
    const texts = ["The cat sleeps on the sofa.", "A cat is asleep on a couch.", "SELECT * FROM t"];
    const [cat, couch, query] = await Promise.all(texts.map(vector));
    expect(cat).toHaveLength(576);
    expect(cosine(cat!, couch!)).toBeGreaterThan(cosine(cat!, query!));
  });
});

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]) =>
    x.reduce((sum, value, at) => sum + value * y[at]!, 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
