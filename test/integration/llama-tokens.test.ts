import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlamaFrom } from "../../src/engines/llama/engine.ts";
import type { InferenceRequest } from "../../src/foundation/inference.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { complete } from "./llama-requests.ts";

const files = await findLlamaFiles();

const never = new AbortController().signal;

/** Tokens that the engine made ahead of asking. Nothing is generated here. */
describe("llama's tokens of prompts", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let engine: Engine;
  beforeAll(async () => {
    if (files.missing !== undefined) return;
    engine = await openLlamaFrom({ ...files, sequences: 1, contextTokens: 256 }, engineContext);
  });
  afterAll(() => engine?.close());

  /** How long the engine finds a prompt, which it says of one that is too long. */
  async function lengthOf(request: InferenceRequest): Promise<number> {
    const parameters = { ...request.parameters, maxNewTokens: 1000 };
    const error = await engine.infer({ ...request, parameters }, never).then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    return Number(/(\d+) tokens of prompt/.exec(error?.message ?? "")?.[1]);
  }

  const text = complete("The sea is <|im_end|> grey today.", {});
  const { prompt: _, ...rest } = text;
  const messages = [{ role: "user" as const, content: "  Is it? <|im_end|>" }];
  const chat: InferenceRequest = { ...rest, messages };

  it("are of one tokenizer, and the same each time", async () => {
    const first = await engine.tokenize!([{ prompt: text.prompt! }, { messages }]);
    expect(first.tokenizer).toMatch(/^[0-9a-f]{64}$/);
    expect(await engine.tokenize!([{ prompt: text.prompt! }, { messages }])).toEqual(first);
    const [ofText, ofChat] = first.prompts;
    expect(ofText).toHaveLength(2);
    expect(ofText![0]).toEqual([]);
    expect(ofChat!.length).toBeGreaterThanOrEqual(3);
    // The end mark is special in the template, and text where somebody wrote it.
    expect(ofChat![2]).toContain(2);
    expect([...ofText![1]!, ...ofChat![1]!]).not.toContain(2);
  });

  it("take the place of the words, also where the model's first token is asked for", async () => {
    const { prompts } = await engine.tokenize!([{ prompt: text.prompt! }, { messages }]);
    for (const [at, request] of [text, chat].entries()) {
      const tokens = prompts[at]!;
      const words = await lengthOf(request);
      expect(words).toBe(tokens.flat().length);
      expect(await lengthOf({ ...request, tokens })).toBe(words);
      expect(await lengthOf({ ...request, tokens: [...tokens, [1, 2, 3]] })).toBe(words + 3);
    }
    const parameters = { ...text.parameters, prependBos: true };
    const words = await lengthOf({ ...text, parameters });
    expect(await lengthOf({ ...text, parameters, tokens: prompts[0]! })).toBe(words);
    expect(words).toBe(prompts[0]!.flat().length + 1);
  });
});
