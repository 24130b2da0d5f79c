import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { pricesOf, tokensOf, usdOf } from "../../../src/run/bill/costs.ts";

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

describe("pricesOf", () => {
  const model = (via: "batch" | "requests") =>
    modelOptions.parse({ engine: "openai", name: "m", via });

  it("are those of batches for a model that is sent batches, half by default", () => {
    expect(pricesOf({ model: model("requests"), prices })).toEqual(prices);
    expect(pricesOf({ model: model("batch"), prices })).toEqual({
      ...{ promptUsdPerMillion: 0.075, completionUsdPerMillion: 0.3 },
    });
    const own = { ...prices, cachedPromptUsdPerMillion: 0.1, batchShare: 0.8 };
    expect(usdOf(usage, pricesOf({ model: model("batch"), prices: own }))).toBe(0.56);
    expect(pricesOf({ model: model("requests"), prices: own })).not.toHaveProperty("batchShare");
    expect(pricesOf({ model: model("batch"), prices: undefined })).toBeUndefined();
  });
});

describe("tokensOf", () => {
  it("counts both ways, cached ones once", () => {
    expect(tokensOf(usage)).toBe(3_500_000);
  });
});
