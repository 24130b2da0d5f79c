import { describe, expect, it } from "vitest";
import {
  chooseSlot as chooseSlotOf,
  reusedTokens,
  type SlotView,
  sharedPrefix,
} from "../../../src/engines/llama/slot-choice.ts";

const prefix = Array.from({ length: 100 }, (_, at) => at + 1000);
const prompt = [...prefix, 1, 2, 3];
const slot = (id: number, cached: number[] = [], planned?: number[]): SlotView => ({
  id,
  isFree: planned === undefined,
  cached,
  planned: planned ?? [],
});

const chooseSlot = (slots: readonly SlotView[], tokens: readonly number[]) =>
  chooseSlotOf(slots, tokens, 64);

describe("reusedTokens", () => {
  it("drops the few held tokens of a block that is computed whole", () => {
    expect(reusedTokens(4, 200, 64)).toBe(0);
    expect(reusedTokens(71, 128, 64)).toBe(64);
  });

  it("keeps what is more, what the prompt ends in, and all where there are no blocks", () => {
    expect(reusedTokens(72, 128, 64)).toBe(72);
    expect(reusedTokens(71, 127, 64)).toBe(71);
    expect(reusedTokens(64, 200, 64)).toBe(64);
    expect(reusedTokens(4, 200, Number.POSITIVE_INFINITY)).toBe(4);
  });
});

describe("sharedPrefix", () => {
  it("counts equal leading tokens", () => {
    expect(sharedPrefix([1, 2, 3], [1, 2, 4])).toBe(2);
    expect(sharedPrefix([], [1])).toBe(0);
  });
});

describe("chooseSlot", () => {
  it("takes the lowest free slot, so that live ones stay neighbours", () => {
    expect(chooseSlot([slot(0, [], [9]), slot(1), slot(2)], prompt)).toEqual({
      slot: 1,
      reused: 0,
    });
  });

  it("prefers, among the gaps, the one that holds most of the prompt", () => {
    const slots = [slot(0), slot(1, [...prefix, 7]), slot(2, [], [9])];
    expect(chooseSlot(slots, prompt)).toEqual({ slot: 1, reused: 100 });
  });

  it("copies from a slot that holds much more, live or not", () => {
    const slots = [slot(0, prefix, [...prefix, 5]), slot(1, [1000]), slot(2)];
    expect(chooseSlot(slots, prompt)).toEqual({ slot: 1, copyFrom: 0, reused: 100 });
  });

  it("does not copy for a few tokens", () => {
    const slots = [slot(0, prefix.slice(0, 5), prefix.slice(0, 5)), slot(1)];
    expect(chooseSlot(slots, prompt)).toEqual({ slot: 1, reused: 0 });
  });

  it("waits for a live slot that is computing the same beginning", () => {
    expect(chooseSlot([slot(0, [], [...prefix, 5]), slot(1)], prompt)).toBeUndefined();
  });

  it("waits when nothing is free", () => {
    expect(chooseSlot([slot(0, [], [9])], prompt)).toBeUndefined();
  });

  it("always leaves the last token to compute", () => {
    expect(chooseSlot([slot(0, prompt)], prompt)).toEqual({ slot: 0, reused: prompt.length - 1 });
  });
});
