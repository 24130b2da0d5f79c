import { describe, expect, it } from "vitest";
import { Hedging } from "../../../src/engines/openai/hedging.ts";

describe("Hedging", () => {
  it("knows nothing of slowness before it has seen some", () => {
    const hedging = new Hedging({ afterQuantile: 0.9, maxShare: 0.5 });
    for (let ms = 1; ms < 20; ms++) hedging.note(ms);
    expect(hedging.begin()).toBeUndefined();
    hedging.note(20);
    expect(hedging.begin()).toBe(19);
  });

  it("tells those that began before as soon as it knows, unless they ended", () => {
    const hedging = new Hedging({ afterQuantile: 0.5, maxShare: 0.1 });
    const told: string[] = [];
    hedging.onceKnown((delayMs) => told.push(`first ${delayMs}`));
    hedging.onceKnown((delayMs) => told.push(`second ${delayMs}`))();
    for (let noted = 0; noted < 600; noted++) hedging.note(7);
    expect(told).toEqual(["first 7"]);
  });

  it("goes by the latencies of late", () => {
    const hedging = new Hedging({ afterQuantile: 0.5, maxShare: 1 });
    for (let count = 0; count < 1000; count++) hedging.note(10);
    expect(hedging.begin()).toBe(10);
    for (let count = 0; count < 1000; count++) hedging.note(70);
    expect(hedging.begin()).toBe(70);
  });

  it("never asks a larger share twice than it may", () => {
    const hedging = new Hedging({ afterQuantile: 0.5, maxShare: 0.05 });
    let hedged = 0;
    for (let asked = 1; asked <= 1000; asked++) {
      hedging.begin();
      if (hedging.hasShare) {
        hedging.hedged();
        hedged++;
      }
      expect(hedged).toBeLessThanOrEqual(asked * 0.05);
    }
    expect(hedged).toBe(50);
  });
});
