import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type BeamOptions,
  searchBeams,
} from "../../../../src/engines/transformers/decode/beam-search.ts";
import { type Grammar, ScriptedSteps } from "./scripted-steps.ts";

const end = 0;
const never = new AbortController().signal;

function search(
  rows: number,
  grammar: Grammar,
  given: Partial<BeamOptions & { maxNewTokens: number }> = {},
) {
  const { maxNewTokens = 8, ...own } = given;
  const options: BeamOptions = {
    numBeams: 2,
    numReturnSequences: 1,
    lengthPenalty: 1,
    earlyStopping: false,
    endTokens: new Set([end]),
    ...own,
  };
  const steps = new ScriptedSteps(rows, 6, grammar);
  const asked = Array.from({ length: rows }, () => ({
    prompt: [5],
    maxNewTokens,
    rules: () => {},
  }));
  return { steps, found: searchBeams(steps, asked, options, never) };
}

/** The best sequence of the only row. */
async function bestOf(grammar: Grammar, given: Parameters<typeof search>[2] = {}) {
  const [sequences] = await search(1, grammar, given).found;
  return sequences![0]!;
}

/** The likeliest first step leads to unlikely seconds: only a search over both finds the best. */
const misleading: Grammar = (tokens) => {
  if (tokens.length === 0) return { 1: 0.6, 2: 0.4 };
  if (tokens.length > 1) return { [end]: 1 };
  return tokens[0] === 1 ? { 1: 0.3, 2: 0.3, 3: 0.4 } : { 4: 0.9, 3: 0.1 };
};

describe("searchBeams", () => {
  it("finds what is likeliest as a whole", async () => {
    const best = await bestOf(misleading);
    expect(best.tokens).toEqual([2, 4, end]);
    expect(best.score).toBeCloseTo(Math.log(0.36) / 3, 6);
    const greedy = await bestOf(misleading, { numBeams: 1 });
    expect(greedy.tokens).toEqual([1, 3, end]);
  });

  it("takes an end only where it is among the best", async () => {
    const late: Grammar = (tokens) => (tokens.length === 0 ? { 1: 0.6, [end]: 0.4 } : { [end]: 1 });
    const best = await bestOf(late, { numBeams: 1, earlyStopping: true });
    expect(best.tokens).toEqual([1, end]);
  });

  it("gives the asked number of sequences, the best first", async () => {
    const given = { numBeams: 3, numReturnSequences: 3 };
    const [sequences] = await search(1, misleading, given).found;
    expect(sequences!.map(({ tokens }) => tokens[0])).toEqual([2, 1, 1]);
    const scores = sequences!.map(({ score }) => score);
    expect(scores).toEqual([...scores].sort((one, other) => other - one));
  });

  it("prefers longer answers where it is told to", async () => {
    const grammar: Grammar = (tokens) => {
      if (tokens.length === 0) return { [end]: 0.5, 1: 0.5 };
      return tokens.length < 4 ? { 1: 0.9, [end]: 0.1 } : { [end]: 1 };
    };
    const lengthOf = async (lengthPenalty: number) => {
      const best = await bestOf(grammar, { lengthPenalty, earlyStopping: "never" });
      return best.tokens.length;
    };
    expect(await lengthOf(0)).toBe(1);
    expect(await lengthOf(2)).toBe(5);
  });

  it("ends with as many answers as beams, and looks further where it is told to", async () => {
    const grammar: Grammar = (tokens) =>
      tokens.length < 5 ? { [end]: 0.5, 1: 0.5 } : { [end]: 1 };
    const early = search(1, grammar, { earlyStopping: true });
    const late = search(1, grammar, { earlyStopping: "never", lengthPenalty: 2 });
    await Promise.all([early.found, late.found]);
    expect(early.steps.widths).toHaveLength(2);
    expect(late.steps.widths).toHaveLength(6);
  });

  it("ends at the limit of tokens", async () => {
    const best = await bestOf(() => ({ 1: 0.7, 2: 0.3 }), { maxNewTokens: 3 });
    expect(best).toMatchObject({ tokens: [1, 1, 1], finishReason: "length" });
  });

  it("lets a row leave when it is decided, and computes one beam while all are alike", async () => {
    const grammar: Grammar = (tokens, row) => {
      if (row === 0) return { [end]: 0.99, 1: 0.01 };
      return tokens.length < 5 ? { 1: 0.6, 2: 0.4 } : { [end]: 1 };
    };
    const { steps, found } = search(2, grammar);
    await found;
    expect(steps.widths[0]).toBe(2);
    expect(steps.widths.at(-1)).toBe(2);
  });

  it("gives a row the same alone and among others", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 2, maxLength: 5 }),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom(false, true, "never" as const),
        fc.constantFrom(-1, 0, 1, 2),
        async (seeds, numBeams, earlyStopping, lengthPenalty) => {
          const ruled =
            (seed: number): Grammar =>
            (tokens) => {
              const state = tokens.reduce((sum, token) => (sum * 31 + token + 7) % 9973, seed);
              return Object.fromEntries(
                [0, 1, 2, 3].map((token) => [token, 1 + ((state * (token + 3) * 17) % 101)]),
              );
            };
          const given = { numBeams, earlyStopping, lengthPenalty, maxNewTokens: 6 };
          const all: Grammar = (tokens, row) => ruled(seeds[row]!)(tokens, row);
          const together = await search(seeds.length, all, given).found;
          for (const [row, seed] of seeds.entries()) {
            expect((await search(1, ruled(seed), given).found)[0]).toEqual(together[row]);
          }
        },
      ),
      { numRuns: 60 },
    ));

  it("stops between steps when it is told to", async () => {
    const controller = new AbortController();
    const steps = new ScriptedSteps(1, 6, () => ({ 1: 1 }));
    const row = {
      prompt: [],
      maxNewTokens: 1000,
      rules: () => controller.abort(new Error("enough")),
    };
    const options = { numBeams: 2, numReturnSequences: 1, lengthPenalty: 1, earlyStopping: false };
    const endless = { ...options, endTokens: new Set<number>() };
    await expect(searchBeams(steps, [row], endless, controller.signal)).rejects.toThrow("enough");
    expect(steps.widths).toEqual([1]);
  });
});
