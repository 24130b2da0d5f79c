import { describe, expect, it } from "vitest";
import {
  addUsage,
  greedyParameters,
  noUsage,
  requestSeed,
} from "../../src/foundation/inference.ts";

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

describe("requestSeed", () => {
  const place = (changes: object, explicit?: string[]) => {
    const parameters = { ...greedyParameters, maxNewTokens: 8, seed: 7 };
    return {
      origin: { index: 0, promptName: "prompt", ...changes },
      parameters: { ...parameters, ...(explicit && { explicit }) },
    };
  };

  it("is each request's own where nobody wrote one, and the same every time", () => {
    const places = [{}, { index: 1 }, { promptName: "other" }, { element: 0 }, { element: 1 }];
    const seeds = places.map((changes) => requestSeed(place(changes)));
    expect(new Set(seeds).size).toBe(places.length);
    expect(places.map((changes) => requestSeed(place(changes, ["temperature"])))).toEqual(seeds);
    for (const seed of seeds) expect(seed >>> 0).toBe(seed);
  });

  it("is that of the parameters for a request that belongs to no run", () => {
    expect(requestSeed({ parameters: place({}).parameters })).toBe(7);
  });

  it("is the one that somebody wrote, for every request", () => {
    for (const index of [0, 1]) expect(requestSeed(place({ index }, ["seed"]))).toBe(7);
  });
});
