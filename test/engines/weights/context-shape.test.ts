import { describe, expect, it } from "vitest";
import { contextShape, stateBytesPerToken } from "../../../src/engines/weights/context-shape.ts";

const metadata = {
  general: { architecture: "llama" },
  llama: {
    block_count: 30,
    embedding_length: 576,
    attention: { head_count: 9, head_count_kv: 3 },
  },
};
const limits = { metadata, trainedTokens: 8192, freeBytes: 64 * 2 ** 30, cores: 4 };

describe("stateBytesPerToken", () => {
  it("counts keys and values of every layer", () => {
    expect(stateBytesPerToken(metadata)).toBe(30 * 3 * (64 + 64) * 2);
  });

  it("takes the largest layer of a list, and 0 for what it does not know", () => {
    const attention = { head_count: 9, head_count_kv: [0, 3], key_length: 10, value_length: 20 };
    const mixed = { ...metadata, llama: { ...metadata.llama, attention } };
    expect(stateBytesPerToken(mixed)).toBe(30 * 3 * 30 * 2);
    expect(stateBytesPerToken({})).toBe(0);
  });
});

describe("contextShape", () => {
  it("has defaults", () => {
    expect(contextShape({}, limits)).toEqual({
      sequences: 32,
      contextTokens: 2048,
      batchTokens: 512,
      threads: 4,
    });
  });

  it("does not exceed what the model was trained on, unless asked", () => {
    expect(contextShape({}, { ...limits, trainedTokens: 512 }).contextTokens).toBe(512);
    expect(contextShape({ contextTokens: 4096 }, limits).contextTokens).toBe(4096);
  });

  it("takes fewer sequences where memory is short", () => {
    const freeBytes = 2 * 3.5 * 2048 * stateBytesPerToken(metadata);
    expect(contextShape({}, { ...limits, freeBytes }).sequences).toBe(3);
    expect(contextShape({}, { ...limits, freeBytes: 1 }).sequences).toBe(1);
    expect(contextShape({ sequences: 8 }, { ...limits, freeBytes: 1 }).sequences).toBe(8);
  });

  it("lets a pass hold a token of each sequence", () => {
    expect(contextShape({ sequences: 40, batchTokens: 8 }, limits).batchTokens).toBe(40);
  });
});
