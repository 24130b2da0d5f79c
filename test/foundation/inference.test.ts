import { describe, expect, it } from "vitest";
import { addUsage, noUsage } from "../../src/foundation/inference.ts";

describe("usage", () => {
  const usage = { promptTokens: 10, cachedTokens: 4, completionTokens: 3 };

  it("adds up by kind of token", () => {
    const more = { promptTokens: 1, cachedTokens: 2, completionTokens: 3 };
    expect(addUsage(usage, more)).toEqual({
      promptTokens: 11,
      cachedTokens: 6,
      completionTokens: 6,
    });
  });

  it("begins at nothing, which stays nothing", () => {
    expect(addUsage(noUsage, usage)).toEqual(usage);
    expect(Object.isFrozen(noUsage)).toBe(true);
  });
});
