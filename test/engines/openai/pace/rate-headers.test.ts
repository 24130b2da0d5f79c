import { describe, expect, it } from "vitest";
import { durationMs, readRateHeaders } from "../../../../src/engines/openai/pace/rate-headers.ts";

describe("durationMs", () => {
  it("reads what servers write", () => {
    const texts = ["6m0s", "20ms", "1h2m3.5s", "1.5s", "7", "0s", "2m59.56s", "1d"];
    const expected = [360_000, 20, 3_723_500, 1500, 7000, 0, 179_560, 86_400_000];
    texts.forEach((text, at) => {
      expect(durationMs(text)).toBeCloseTo(expected[at]!, 6);
    });
  });

  it("reads nothing else", () => {
    for (const text of ["", "soon", "1x", "-5s", "5 minutes", "2026-11-22T00:00:00Z"]) {
      expect(durationMs(text)).toBeUndefined();
    }
  });
});

describe("readRateHeaders", () => {
  it("reads OpenAI's headers, each unit by itself", () => {
    const headers = {
      "x-ratelimit-limit-requests": "10000",
      "x-ratelimit-remaining-requests": "9999",
      "x-ratelimit-reset-requests": "6ms",
      "x-ratelimit-limit-tokens": "200000",
      "x-ratelimit-remaining-tokens": "199000",
      "x-ratelimit-reset-tokens": "300ms",
    };
    expect(readRateHeaders(headers)).toEqual({
      requests: { limit: 10_000, remaining: 9999, resetMs: 6 },
      tokens: { limit: 200_000, remaining: 199_000, resetMs: 300 },
    });
  });

  it("reads the IETF draft, in its older and its newer form", () => {
    const state = { limit: 100, remaining: 50, resetMs: 30_000 };
    const older = {
      "ratelimit-limit": "100",
      "ratelimit-remaining": "50",
      "ratelimit-reset": "30",
    };
    const newer = {
      ratelimit: '"default";r=50;t=30',
      "ratelimit-policy": '"default";q=100;w=60, "daily";q=9000;w=86400',
    };
    expect(readRateHeaders(older)).toEqual({ requests: state });
    expect(readRateHeaders(newer)).toEqual({ requests: state });
  });

  it("takes nothing that is not whole, no number, or a time of day", () => {
    const whole = {
      "x-ratelimit-limit-requests": "100",
      "x-ratelimit-remaining-requests": "5",
      "x-ratelimit-reset-requests": "1s",
    };
    for (const [name, text] of [
      ["x-ratelimit-reset-requests", undefined],
      ["x-ratelimit-remaining-requests", "many"],
      ["x-ratelimit-limit-requests", "0"],
      ["x-ratelimit-reset-requests", "1795305600"],
    ] as const) {
      expect(readRateHeaders({ ...whole, [name]: text }).requests).toBeUndefined();
    }
    expect(readRateHeaders({})).toEqual({});
  });
});
