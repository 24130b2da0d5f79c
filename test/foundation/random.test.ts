import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mix32, randomInteger, seededRandom, systemRandom } from "../../src/foundation/random.ts";

const take = (seed: number, count: number) => {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => random.next());
};

describe("seededRandom", () => {
  it("follows from its seed alone", () => {
    expect(take(7, 5)).toEqual(take(7, 5));
    expect(take(7, 5)).not.toEqual(take(8, 5));
  });

  it("gives the same numbers in every release: answers of recorded seeds depend on it", () => {
    expect(take(1, 3).map((value) => Math.floor(value * 2 ** 32))).toMatchInlineSnapshot(`
      [
        1580013426,
        350525680,
        3524174333,
      ]
    `);
  });

  it("stays in [0, 1) for any seed", () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => take(seed, 20).every((value) => value >= 0 && value < 1)),
    );
  });

  it("is spread evenly enough: 16 bins of 16,000 draws are each within a fifth", () => {
    const bins = new Array<number>(16).fill(0);
    for (const value of take(42, 16_000)) bins[Math.floor(value * 16)]!++;
    expect(Math.min(...bins)).toBeGreaterThan(800);
    expect(Math.max(...bins)).toBeLessThan(1200);
  });
});

describe("mix32", () => {
  it("is an unsigned 32-bit number, and no two inputs of a range meet", () => {
    const outputs = Array.from({ length: 10_000 }, (_, value) => mix32(value));
    expect(new Set(outputs).size).toBe(10_000);
    expect(outputs.every((value) => value >= 0 && value < 2 ** 32)).toBe(true);
  });
});

describe("randomInteger", () => {
  it("reaches every number below the limit and none beyond", () => {
    const random = seededRandom(3);
    const seen = new Set(Array.from({ length: 500 }, () => randomInteger(random, 6)));
    expect([...seen].sort()).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("takes the edges of chance", () => {
    expect(randomInteger({ next: () => 0 }, 10)).toBe(0);
    expect(randomInteger({ next: () => 1 - 2 ** -32 }, 32 ** 6)).toBe(32 ** 6 - 1);
  });
});

describe("systemRandom", () => {
  it("gives numbers in [0, 1) that differ", () => {
    const values = Array.from({ length: 50 }, () => systemRandom.next());
    expect(values.every((value) => value >= 0 && value < 1)).toBe(true);
    expect(new Set(values).size).toBeGreaterThan(1);
  });
});
