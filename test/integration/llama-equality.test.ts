import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlamaFrom } from "../../src/engines/llama/engine.ts";
import { type LoadedLlama, loadLlama } from "../../src/engines/llama/loaded-llama.ts";
import type { NativeSampler } from "../../src/engines/llama/node-llama-cpp.ts";
import { greedyParameters, type InferenceRequest } from "../../src/foundation/inference.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";

const files = await findLlamaFiles();
const { modelPath, modulePath } = files as { modelPath: string; modulePath: string };
const never = new AbortController().signal;

/** Rows; `TEST_SLUICE_EQUALITY_ROWS=200` for the long one, whose figure is in bench/README.md. */
const rows = Number(process.env.TEST_SLUICE_EQUALITY_ROWS ?? 4);
/** Tokens of an answer; the longer it is, the likelier a choice between two nearly equal ones. */
const answerTokens = Number(process.env.TEST_SLUICE_EQUALITY_TOKENS ?? 8);
/** Kernels round by the shape of a batch, so that now and then another token is the likeliest. */
const maxOthers = Math.max(1, Math.floor(rows / 10));

const words = ["garden", "river", "stone", "lantern", "harbor", "meadow", "bridge", "orchard"];
const examples = Array.from(
  { length: 8 },
  (_, at) => `Question: What is a ${words[at % 8]}? Answer: A thing one may see on a walk.`,
).join("\n");
const contentOf = (index: number) => {
  const [thing, place] = [words[index % 8], words[(index * 3) % 7]];
  // Prompts of 30 to 160 tokens.
  const told = `On day ${index} we walked from the ${thing} to the ${place} and back. `;
  return `${told.repeat(1 + (index % 8))}Describe ${index} ${thing}s near a ${place}.`;
};
const requestOf = (index: number, system: string): InferenceRequest => ({
  origin: { index, promptName: "p" },
  messages: [
    { role: "system", content: system },
    { role: "user", content: contentOf(index) },
  ],
  parameters: { ...greedyParameters, maxNewTokens: answerTokens, seed: 0 },
});
const indexes = Array.from({ length: rows }, (_, index) => index);

describe("greedy answers of llama", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let engine: Engine;
  /** One that was started anew. */
  let other: Engine;
  let alone: string[];
  const shape = { sequences: 16, contextTokens: 1024, threads: 1 };
  const open = () => openLlamaFrom({ modelPath, modulePath, ...shape }, engineContext);
  const textOf = async (request: InferenceRequest, by = engine) =>
    (await by.infer(request, never)).answers[0]!.text;
  const oneByOne = async (system: string, by = engine) => {
    const texts: string[] = [];
    for (const index of indexes) texts.push(await textOf(requestOf(index, system), by));
    return texts;
  };

  beforeAll(async () => {
    if (files.missing !== undefined) return;
    [engine, other] = await Promise.all([open(), open()]);
    alone = await oneByOne("Be short.");
  });
  afterAll(() => Promise.all([engine?.close(), other?.close()]));

  /** Fails where fewer are the same than may be, and shows those that are not. */
  function compare(texts: readonly string[], expected: readonly string[], how: string): void {
    const others = indexes.filter((row) => texts[row] !== expected[row]);
    const same = rows - others.length;
    console.log(`${how}: ${same} of ${rows} answers of ${answerTokens} tokens are the same`);
    for (const row of others) console.log(`  row ${row}: ${expected[row]} | ${texts[row]}`);
    expect(others.length).toBeLessThanOrEqual(maxOthers);
  }

  it("are the same alone and in a batch of 16", async () => {
    const asked = indexes.map((row) => textOf(requestOf(row, "Be short.")));
    compare(await Promise.all(asked), alone, "in a batch");
  });

  it("are the same behind a prefix that was copied", async () => {
    // One sequence computes the prefix, and all answers alone go on from there.
    const expected = await oneByOne(examples, other);
    const responses = await Promise.all(
      indexes.map((row) => engine.infer(requestOf(row, examples), never)),
    );
    const copied = responses.filter(({ usage }) => usage.cachedTokens > 100).length;
    expect(copied).toBeGreaterThanOrEqual(rows - 1);
    const texts = responses.map(({ answers }) => answers[0]!.text);
    compare(texts, expected, "behind a copied prefix");
  });

  it("are the same from an engine that was started anew", async () => {
    const asked = indexes.map((row) => textOf(requestOf(row, "Be short."), other));
    compare(await Promise.all(asked), alone, "after a restart");
  });
});

/** The prefix of a sequence is copied to the bit: what differs above comes from elsewhere. */
describe("a copied prefix", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let loaded: LoadedLlama;
  let sampler: NativeSampler;
  beforeAll(async () => {
    if (files.missing !== undefined) return;
    const shape = { sequences: 3, contextTokens: 1024, batchTokens: 512, threads: 1 };
    loaded = await loadLlama({
      modulePath,
      modelPath,
      adapters: [],
      isExact: true,
      shape: () => shape,
    });
    sampler = loaded.createSampler();
    sampler.applyConfig({ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0 });
  });
  afterAll(async () => {
    sampler?.dispose();
    await loaded?.dispose();
  });

  const answer = async (sequence: number, start: number, prompt: readonly number[]) => {
    const chosen: number[][] = [];
    let [at, tokens] = [start, prompt];
    while (chosen.length < 8) {
      const item = { sequence, start: at, tokens, wantsOutput: true };
      const [output] = await loaded.decode([item]);
      const token = await loaded.sample(output!, sampler);
      const { top } = await loaded.logProbabilities(output!, token, 3);
      chosen.push([token, ...top.map(({ logProbability }) => logProbability)]);
      at += tokens.length;
      tokens = [token];
    }
    return chosen;
  };

  it("gives the very probabilities that it gives where it was computed", async () => {
    const prefix = loaded.model.tokenize(examples, false);
    const start = prefix.length;
    await loaded.decode([{ sequence: 0, start: 0, tokens: prefix, wantsOutput: false }]);
    for (const row of indexes.slice(0, rows / 3)) {
      const prompt = loaded.model.tokenize(`\n${contentOf(row)}`, false);
      await loaded.copy(0, 2);
      const copied = await answer(2, start, prompt);
      expect(await answer(0, start, prompt)).toEqual(copied);
      loaded.truncate(0, start);
      loaded.truncate(2, 0);
    }
  });
});
