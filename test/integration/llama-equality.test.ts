import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlamaFrom } from "../../src/engines/llama/engine.ts";
import type { InferenceRequest } from "../../src/foundation/inference.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";

const files = await findLlamaFiles();
const never = new AbortController().signal;

/** Rows; `SLUICE_EQUALITY_ROWS=200` for the long one, whose figure is in bench/README.md. */
const rows = Number(process.env.SLUICE_EQUALITY_ROWS ?? 24);
/** Kernels round by the shape of a batch, so that now and then another token is the likeliest. */
const leastShare = 0.95;
/** More is rounded in a longer context: with AMX 75 % were the same, see bench/README.md. */
const leastShareBehindPrefix = 0.6;

const words = ["garden", "river", "stone", "lantern", "harbor", "meadow", "bridge", "orchard"];
const examples = Array.from(
  { length: 12 },
  (_, at) => `Question: What is a ${words[at % 8]}? Answer: A thing one may see on a walk.`,
).join("\n");
const requestOf = (index: number, prefix: string): InferenceRequest => ({
  index,
  promptName: "p",
  messages: [
    { role: "system", content: prefix },
    { role: "user", content: `Describe ${index} ${words[index % 8]}s near a ${words[index % 7]}.` },
  ],
  parameters: {
    ...{ maxNewTokens: 16, temperature: 0, topP: 1, topK: 0, minP: 0, seed: 0, stop: [] },
    ...{ repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0 },
  },
  onTooLong: "fail",
});

describe("greedy answers of llama", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let engine: Engine;
  let alone: string[];
  const open = () =>
    openLlamaFrom(
      { ...(files as { modelPath: string; modulePath: string }), ...shape },
      engineContext,
    );
  const shape = { sequences: 16, contextTokens: 1024 };
  const textOf = async (request: InferenceRequest, by = engine) =>
    (await by.infer(request, never)).answers[0]!.text;

  beforeAll(async () => {
    if (files.missing !== undefined) return;
    engine = await open();
    alone = [];
    for (let row = 0; row < rows; row++) alone.push(await textOf(requestOf(row, "Be short.")));
  });
  afterAll(() => engine?.close());

  /** Fails where fewer are the same than may be, and shows those that are not. */
  function compare(
    texts: readonly string[],
    expected: readonly string[],
    how: string,
    least = leastShare,
  ): void {
    const others = texts.flatMap((text, row) => (text === expected[row] ? [] : row));
    const share = 1 - others.length / texts.length;
    console.log(`${how}: ${texts.length - others.length} of ${texts.length} answers are the same`);
    for (const row of others) console.log(`  row ${row}: ${expected[row]} | ${texts[row]}`);
    expect(share).toBeGreaterThanOrEqual(least);
  }

  it("are the same alone and in a batch of 16", async () => {
    const asked = alone.map((_, row) => textOf(requestOf(row, "Be short.")));
    compare(await Promise.all(asked), alone, "in a batch");
  });

  it("are the same behind a prefix that was copied", async () => {
    const fresh = await open();
    const expected: string[] = [];
    try {
      // One sequence computes the prefix, and all answers alone go on from there.
      for (let row = 0; row < rows; row++) {
        expected.push(await textOf(requestOf(row, examples), fresh));
      }
    } finally {
      await fresh.close();
    }
    const responses = await Promise.all(
      alone.map((_, row) => engine.infer(requestOf(row, examples), never)),
    );
    const copied = responses.filter(({ usage }) => usage.cachedTokens > 100).length;
    expect(copied).toBeGreaterThanOrEqual(rows - 1);
    compare(
      responses.map(({ answers }) => answers[0]!.text),
      expected,
      "behind a copied prefix",
      leastShareBehindPrefix,
    );
  });

  it("are the same from an engine that was started anew", async () => {
    const again = await open();
    try {
      const asked = alone.map((_, row) => textOf(requestOf(row, "Be short."), again));
      compare(await Promise.all(asked), alone, "after a restart");
    } finally {
      await again.close();
    }
  });
});
