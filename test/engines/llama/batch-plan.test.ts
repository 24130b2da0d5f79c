import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planBatch } from "../../../src/engines/llama/batch-plan.ts";

const waiting = fc.uniqueArray(fc.nat(31), { minLength: 1 }).chain((sequences) =>
  fc.tuple(
    ...sequences.map((sequence) =>
      fc.record({
        sequence: fc.constant(sequence),
        pendingTokens: fc.integer({ min: 1, max: 900 }),
      }),
    ),
  ),
);

describe("planBatch", () => {
  it("gives every sequence a token, never more than the pass or the sequence has", () => {
    fc.assert(
      fc.property(waiting, fc.integer({ min: 32, max: 512 }), (all, batchTokens) => {
        const shares = planBatch(all, batchTokens);
        expect(shares).toHaveLength(all.length);
        const pending = new Map(all.map((item) => [item.sequence, item.pendingTokens]));
        for (const { sequence, tokens } of shares) {
          expect(tokens).toBeGreaterThanOrEqual(1);
          expect(tokens).toBeLessThanOrEqual(pending.get(sequence)!);
        }
        const sum = shares.reduce((total, share) => total + share.tokens, 0);
        const asked = all.reduce((total, item) => total + item.pendingTokens, 0);
        expect(sum).toBe(Math.min(batchTokens, asked));
        expect(shares.map((share) => share.sequence)).toEqual(
          [...pending.keys()].sort((a, b) => a - b),
        );
      }),
    );
  });
});
