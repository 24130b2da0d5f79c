import { describe, expect, it } from "vitest";
import { tokensOf, usdOf } from "../../../src/run/bill/costs.ts";

const usage = { promptTokens: 3_000_000, cachedTokens: 1_000_000, completionTokens: 500_000 };
const prices = { promptUsdPerMillion: 0.15, completionUsdPerMillion: 0.6 };

describe("usdOf", () => {
  it("prices cached tokens by their own price, or as any other", () => {
    expect(usdOf(usage, prices)).toBe(0.75);
    expect(usdOf(usage, { ...prices, cachedPromptUsdPerMillion: 0.05 })).toBe(0.65);
    expect(usdOf(usage, { ...prices, cachedPromptUsdPerMillion: 0 })).toBe(0.6);
    expect(usdOf(usage, undefined)).toBeNull();
  });
});

describe("tokensOf", () => {
  it("counts both ways, cached ones once", () => {
    expect(tokensOf(usage)).toBe(3_500_000);
  });
});
