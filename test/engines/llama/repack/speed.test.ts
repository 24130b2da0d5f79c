import { describe, expect, it } from "vitest";
import type { Engine } from "../../../../src/engines/engine.ts";
import { compareSpeed } from "../../../../src/engines/llama/repack/speed.ts";
import { systemClock } from "../../../../src/foundation/clock.ts";
import { limits } from "../../../../src/foundation/limits.ts";

/** Engines whose requests take what is left of `tookMs`, then the last of it. */
function compared(tookMs: number[][]) {
  let nowMs = 0;
  const asked: string[] = [];
  const engines = tookMs.map((took, at): Engine => {
    let requests = 0;
    return {
      name: String(at),
      capacity: 16,
      async infer({ prompt }) {
        asked.push(`${at} ${prompt}`);
        nowMs += took[Math.min(Math.floor(requests++ / 16), took.length - 1)]!;
        const usage = { promptTokens: 20, cachedTokens: 4, completionTokens: 8 };
        return { answers: [], usage, seconds: 0 };
      },
      close: async () => {},
    };
  });
  const speeds = compareSpeed(engines, { ...systemClock, monotonic: () => nowMs });
  return { speeds, asked };
}

describe("compareSpeed", () => {
  it("gives the best of the rounds, tokens that were reused left out", async () => {
    const { speeds } = compared([
      [8, 2, 4],
      [3, 6, 6],
    ]);
    expect(await speeds).toEqual([24 / 0.002, 24 / 0.003]);
  });

  it("asks all engines the same, in turns, and no engine the same twice", async () => {
    const { speeds, asked } = compared([[1], [1]]);
    await speeds;
    expect(asked).toHaveLength(2 * 3 * 16);
    expect(new Set(asked).size).toBe(asked.length);
    const withoutEngine = asked.map((line) => line.slice(2));
    expect(withoutEngine.slice(0, 16)).toEqual(withoutEngine.slice(16, 32));
    expect(asked.map((line) => line[0]).join("")).toBe(
      `${"0".repeat(16)}${"1".repeat(16)}`.repeat(3),
    );
  });

  it("begins no further round when it has taken long", async () => {
    const { speeds, asked } = compared([[limits.maxSpeedMeasureMs], [1]]);
    await speeds;
    expect(asked).toHaveLength(32);
  });
});
