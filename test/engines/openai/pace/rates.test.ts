import { describe, expect, it } from "vitest";
import { Rates } from "../../../../src/engines/openai/pace/rates.ts";

const answered = (promptTokens: number, completionTokens: number, headers = {}) => ({
  ...{ outcome: "answered" as const, promptTokens, completionTokens, headers },
});

describe("Rates", () => {
  it("limits nothing where nobody says so", () => {
    const rates = new Rates({}, 0);
    for (let count = 0; count < 1000; count++) rates.take(1_000_000, 0);
    expect(rates.waitMs(0)).toBe(0);
  });

  it("keeps requests and tokens both, and settles what a request cost", () => {
    const rates = new Rates({ requestsPerMinute: 6000, tokensPerMinute: 60_000 }, 0);
    const taking = rates.take(30_000, 0);
    expect(rates.waitMs(0)).toBeGreaterThan(29_000);
    rates.settle(taking, answered(100, 400), 0);
    expect(rates.waitMs(0)).toBe(0);
    for (let count = 0; count < 99; count++) rates.take(1, 0);
    expect(rates.waitMs(0)).toBe(11);
  });

  it("gives tokens back that were refused, and keeps what may have been counted there", () => {
    const rates = new Rates({ tokensPerMinute: 60_000 }, 0);
    rates.settle(rates.take(5000, 0), { outcome: "limited", headers: {} }, 0);
    expect(rates.waitMs(0)).toBe(0);
    rates.settle(rates.take(5000, 0), { outcome: "failed" }, 0);
    expect(rates.waitMs(0)).toBeGreaterThan(3900);
  });

  it("hears headers, also those of a refusal, and counts what was sent since", () => {
    const rates = new Rates({}, 0);
    const first = rates.take(10, 0);
    rates.take(10, 0);
    rates.take(10, 0);
    const headers = {
      "x-ratelimit-limit-requests": "60",
      "x-ratelimit-remaining-requests": "2",
      "x-ratelimit-reset-requests": "58s",
    };
    rates.settle(first, { outcome: "limited", headers }, 0);
    expect(rates.waitMs(0)).toBe(1000);
    expect(rates.waitMs(1000)).toBe(0);
  });
});
