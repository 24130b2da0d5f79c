import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openTransformers } from "../../src/engines/transformers/engine.ts";
import golden from "../golden/minilm/golden.json" with { type: "json" };
import { engineContext } from "./llama-files.ts";
import {
  findMinilm,
  missingTransformers,
  rowRequest,
  transformersOptions,
} from "./transformers-files.ts";

const folder = findMinilm();
const missing =
  folder === undefined
    ? "MiniLM is not here: npm run peers -- minilm fetches it"
    : await missingTransformers();
const never = new AbortController().signal;

const cosine = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, at) => sum + value * other[at]!, 0);

describe("MiniLM, a real model of sentences", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  let engine: Engine;
  beforeAll(async () => {
    if (missing !== undefined) return;
    const options = { task: "feature-extraction", name: folder!, threads: 2, maxBatchRows: 4 };
    engine = await openTransformers(transformersOptions(options), engineContext);
  });
  afterAll(() => engine?.close());

  const embed = (texts: readonly string[]) =>
    Promise.all(
      texts.map(async (text, index) => {
        const { answers } = await engine.infer(rowRequest(index, { text }), never);
        return answers[0]!.value as number[];
      }),
    );

  it("gives the reference's vectors, in batches of mixed lengths and alone", async () => {
    const vectors = await embed(golden.sentences);
    for (const [at, vector] of vectors.entries()) {
      expect(vector).toHaveLength(384);
      for (const [place, value] of golden.starts[at]!.entries()) {
        expect(Math.abs(vector[place]! - value)).toBeLessThan(1e-5);
      }
      for (const [place, other] of vectors.entries()) {
        expect(Math.abs(cosine(vector, other) - golden.cosines[at]![place]!)).toBeLessThan(1e-4);
      }
      const [alone] = await embed([golden.sentences[at]!]);
      expect(cosine(alone!, vector)).toBeGreaterThan(1 - 1e-5);
    }
  });

  it("has kittens near cats and taxes far from both", async () => {
    const [cat, kitten, tax] = await embed(["cat", "kitten", "income tax"]);
    expect(cosine(cat!, kitten!)).toBeCloseTo(0.7882, 3);
    expect(cosine(cat!, tax!)).toBeCloseTo(0.1818, 3);
  });

  it("refuses a text that is too long, and cuts it where it is told to", async () => {
    const long = rowRequest(0, { text: "word ".repeat(600) });
    await expect(engine.infer(long, never)).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
    const cut = await engine.infer({ ...long, onTooLong: "truncate-right" }, never);
    expect(cut.usage.promptTokens).toBe(512);
  });
});
