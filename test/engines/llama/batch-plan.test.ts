import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type BatchShare,
  gapsToFill,
  lonelySequences,
  type PendingSequence,
  planPass,
} from "../../../src/engines/llama/batch-plan.ts";

const blockTokens = 64;

const waiting = fc.uniqueArray(fc.nat(31), { minLength: 1 }).chain((sequences) =>
  fc.tuple(
    ...sequences.map((sequence) =>
      fc.record({
        sequence: fc.constant(sequence),
        start: fc.nat(300),
        pendingTokens: fc.integer({ min: 1, max: 900 }),
      }),
    ),
  ),
);
const batchTokens = fc.integer({ min: 32, max: 512 });
const tokensOf = (shares: readonly BatchShare[]) =>
  shares.reduce((total, share) => total + share.tokens, 0);

describe("planPass", () => {
  it("keeps both batches within the limit, in order, and gives none more than it has", () => {
    fc.assert(
      fc.property(waiting, batchTokens, (all, most) => {
        const { blocks, rest } = planPass(all, { batchTokens: most, blockTokens });
        expect(blocks.length + rest.length).toBeGreaterThan(0);
        for (const shares of [blocks, rest]) {
          expect(tokensOf(shares)).toBeLessThanOrEqual(most);
          const sequences = shares.map((share) => share.sequence);
          expect(sequences).toEqual([...new Set(sequences)].sort((a, b) => a - b));
          for (const { tokens } of shares) expect(tokens).toBeGreaterThanOrEqual(1);
        }
        for (const { sequence, pendingTokens } of all) {
          const own = [...blocks, ...rest].filter((share) => share.sequence === sequence);
          expect(tokensOf(own)).toBeLessThanOrEqual(pendingTokens);
        }
      }),
    );
  });

  it("leaves no sequence out that does not wait for a block", () => {
    fc.assert(
      fc.property(waiting, batchTokens, (all, most) => {
        const { rest } = planPass(all, { batchTokens: most, blockTokens });
        const taken = new Set(rest.map((share) => share.sequence));
        for (const { sequence, start, pendingTokens } of all) {
          const waitsForBlock = start % blockTokens === 0 && pendingTokens >= blockTokens;
          if (most < blockTokens || !waitsForBlock) expect(taken).toContain(sequence);
        }
      }),
    );
  });

  it("computes each token in a block or not, whatever is computed beside it", () => {
    fc.assert(
      fc.property(waiting, fc.integer({ min: blockTokens, max: 512 }), (all, most) => {
        const [first] = all as [PendingSequence];
        const limits = { batchTokens: most, blockTokens };
        expect(tokensInBlocks(all, first, limits)).toEqual(
          tokensInBlocks([first], first, { batchTokens: 512, blockTokens }),
        );
      }),
    );
  });

  it("gives all that waits in one batch where there are no blocks", () => {
    const all = [
      { sequence: 1, start: 0, pendingTokens: 900 },
      { sequence: 0, start: 7, pendingTokens: 1 },
    ];
    const limits = { batchTokens: 512, blockTokens: Number.POSITIVE_INFINITY };
    expect(planPass(all, limits)).toEqual({
      blocks: [],
      rest: [
        { sequence: 0, tokens: 1 },
        { sequence: 1, tokens: 511 },
      ],
    });
  });
});

/** Positions of a sequence that come in blocks, when passes go on until all of it is computed. */
function tokensInBlocks(
  all: readonly PendingSequence[],
  { sequence }: PendingSequence,
  limits: { batchTokens: number; blockTokens: number },
): number[] {
  const positions: number[] = [];
  let left = all;
  while (left.some((waits) => waits.sequence === sequence)) {
    const { blocks, rest } = planPass(left, limits);
    for (const [shares, areBlocks] of [[blocks, true] as const, [rest, false] as const]) {
      left = left.flatMap((waits) => {
        const tokens = shares.find((share) => share.sequence === waits.sequence)?.tokens ?? 0;
        if (areBlocks && waits.sequence === sequence) {
          for (let at = 0; at < tokens; at++) positions.push(waits.start + at);
        }
        const pendingTokens = waits.pendingTokens - tokens;
        return pendingTokens > 0 ? { ...waits, start: waits.start + tokens, pendingTokens } : [];
      });
    }
  }
  return positions;
}

describe("lonelySequences", () => {
  const lonely = (...shares: [sequence: number, tokens: number][]) =>
    lonelySequences(shares.map(([sequence, tokens]) => ({ sequence, tokens })));

  it("names a token that has no neighbour", () => {
    expect(lonely([3, 1])).toEqual([3]);
    expect(lonely([0, 1], [2, 1], [4, 1], [5, 1])).toEqual([0, 2]);
  });

  it("names what is left alone of a longer share", () => {
    expect(lonely([0, 1], [1, 2])).toEqual([1]);
    expect(lonely([0, 3], [1, 1], [2, 3])).toEqual([]);
    expect(lonely([0, 2], [1, 1], [2, 3])).toEqual([0]);
  });

  it("names none where all have company", () => {
    expect(lonely([0, 1], [1, 1], [2, 40])).toEqual([]);
    expect(lonely([7, 2])).toEqual([]);
    expect(lonely()).toEqual([]);
  });
});

describe("gapsToFill", () => {
  const filled = (shares: [sequence: number, tokens: number][], isOnGpu = false) =>
    gapsToFill(
      shares.map(([sequence, tokens]) => ({ sequence, tokens })),
      isOnGpu,
    );
  const each = (...sequences: number[]) =>
    sequences.map((sequence): [number, number] => [sequence, 1]);

  it("names idle sequences between many others", () => {
    expect(filled(each(0, 1, 2, 3, 4, 5, 6, 8))).toEqual([7]);
    expect(filled(each(...Array(8).keys(), 10, 11, 12, 13, 14, 15, 16, 17))).toEqual([8, 9]);
  });

  it("leaves a gap that costs more tokens than it saves", () => {
    expect(filled(each(0, 2))).toEqual([]);
    expect(filled(each(0, 1, 2, 3, 5, 6, 7))).toEqual([]);
    expect(filled(each(...Array(8).keys(), 10))).toEqual([]);
  });

  it("counts those that are filled already", () => {
    expect(filled(each(0, 1, 2, 3, 4, 5, 6, 8, 10))).toEqual([7, 9]);
  });

  it("fills more on a GPU, up to what a go costs there", () => {
    expect(filled(each(0, 9), true)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(filled(each(0, 18), true)).toEqual([]);
  });

  it("names none beside prompts, whose first tokens would be computed apart", () => {
    expect(
      filled(
        [
          [0, 1],
          [2, 29],
        ],
        true,
      ),
    ).toEqual([]);
    expect(
      filled(
        [
          [0, 64],
          [2, 64],
        ],
        true,
      ),
    ).toEqual([]);
    expect(
      filled(
        [
          [0, 64],
          [2, 1],
        ],
        true,
      ),
    ).toEqual([]);
    expect(
      filled(
        [
          [0, 1],
          [2, 1],
          [3, 29],
        ],
        true,
      ),
    ).toEqual([1]);
  });

  it("names none without a gap", () => {
    expect(filled(each(4, 5, 6), true)).toEqual([]);
    expect(filled([], true)).toEqual([]);
  });
});
