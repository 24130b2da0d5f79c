import { mkdtemp, readFile, rm, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlamaFrom } from "../../src/engines/llama/engine.ts";
import { type ChosenWeights, chooseWeights } from "../../src/engines/llama/repack/weights.ts";
import { greedyParameters, type InferenceRequest } from "../../src/foundation/inference.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";

const files = await findLlamaFiles();
const shape = { sequences: 8, contextTokens: 256, threads: 1 };
const prompts = [
  "The capital of France is",
  "Water boils at",
  "One, two, three, four,",
  "Once upon a time there was a",
  "The opposite of hot is",
  "A triangle has three",
  "To bake bread you need flour,",
  "My dog likes to",
];
const never = new AbortController().signal;

function requestOf(prompt: string, index: number): InferenceRequest {
  return {
    ...{ index, promptName: "p", prompt, onTooLong: "fail" },
    parameters: {
      ...greedyParameters,
      maxNewTokens: 3,
      seed: 7,
    },
  };
}

async function answersOf(engine: Engine): Promise<string[]> {
  const responses = await Promise.all(
    prompts.map((prompt, index) => engine.infer(requestOf(prompt, index), never)),
  );
  return responses.map(({ answers }) => answers[0]!.text);
}

describe("repacked weights", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let homeDirectory: string;
  let repacked: ChosenWeights;
  let opened = 0;
  const choose = () => {
    if (files.missing !== undefined) throw new Error(files.missing);
    const { modelPath, modulePath } = files;
    // A real measurement would differ by machine: here it is one that always finds a gain.
    let nowMs = 0;
    const open = async (path: string): Promise<Engine> => {
      opened++;
      const engine = await openLlamaFrom({ ...shape, modelPath: path, modulePath }, engineContext);
      const cost = path === modelPath ? 2 : 1;
      return {
        ...{ name: engine.name, capacity: engine.capacity, close: () => engine.close() },
        async infer() {
          nowMs += cost;
          const usage = { promptTokens: 10, cachedTokens: 0, completionTokens: 1 };
          return { answers: [], usage, seconds: 0 };
        },
      };
    };
    const clock = { ...engineContext.clock, monotonic: () => nowMs };
    const context = { ...engineContext, clock, homeDirectory };
    return chooseWeights({ model: { path: modelPath }, machine: "test", open }, context);
  };

  beforeAll(async () => {
    if (files.missing !== undefined) return;
    homeDirectory = await mkdtemp(join(tmpdir(), "sluice-repack-"));
    repacked = await choose();
  });
  afterAll(() => homeDirectory && rm(homeDirectory, { recursive: true }));

  it("load, answer as the model's own, and are named with both digests", async () => {
    if (files.missing !== undefined) return;
    const { modelPath, modulePath } = files;
    const { path, weights } = repacked;
    const own = await openLlamaFrom({ ...shape, modelPath, modulePath }, engineContext);
    const expected = await answersOf(own).finally(() => own.close());
    const engine = await openLlamaFrom(
      { ...shape, modelPath: path, modulePath, weights },
      engineContext,
    );
    const answers = await answersOf(engine).finally(() => engine.close());
    expect(engine.choices?.weights).toEqual({
      file: basename(path),
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      repackedFrom: {
        file: basename(modelPath),
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      },
    });
    expect(answers[0]).toContain("Paris");
    // Rounding differs, so that a token that was nearly level may tip.
    const firstWord = (answer: string | undefined) => answer?.trim().split(/\W/)[0];
    const same = answers.filter((answer, at) => firstWord(answer) === firstWord(expected[at]));
    expect(same.length).toBeGreaterThanOrEqual(prompts.length - 2);
  });

  it("are found by the next call, and made again where they are torn", async () => {
    const openedBefore = opened;
    expect(await choose()).toEqual(repacked);
    const whole = await readFile(repacked.path);
    await truncate(repacked.path, whole.length - 100_000);
    expect(await choose()).toEqual(repacked);
    expect((await readFile(repacked.path)).equals(whole)).toBe(true);
    expect(opened).toBe(openedBefore);
  });
});
