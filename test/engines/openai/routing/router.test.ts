import { describe, expect, it } from "vitest";
import { holderOf, leastLoaded } from "../../../../src/engines/openai/routing/router.ts";
import { loadBound } from "../../../../src/foundation/bounded-load.ts";
import { textHash } from "../../../../src/foundation/hashing.ts";
import { randomInteger, seededRandom } from "../../../../src/foundation/random.ts";

interface Endpoint {
  seed: number;
  weight: number;
  inFlight: number;
}

const named = (name: string, weight = 1): Endpoint => ({
  seed: textHash(name),
  weight,
  inFlight: 0,
});
const poolOf = (...weights: number[]) => weights.map((weight, at) => named(`host-${at}`, weight));
const keys = Array.from({ length: 5000 }, (_, at) => textHash(`prefix ${at}`));
const weighed = [
  [1, 1],
  [1, 1, 1, 1, 1],
  [3, 1],
  [0.5, 2, 7],
];

/** How many of `asked` each endpoint was chosen for. */
function countsOf(pool: readonly Endpoint[], chosen: readonly Endpoint[]): number[] {
  return pool.map((endpoint) => chosen.filter((it) => it === endpoint).length);
}

describe("leastLoaded", () => {
  it.each(weighed)("keeps the requests in flight within one of the weights: %j", (...weights) => {
    const pool = poolOf(...weights);
    const whole = weights.reduce((sum, weight) => sum + weight, 0);
    for (let asked = 1; asked <= 300; asked++) {
      leastLoaded(pool)!.inFlight++;
      for (const { inFlight, weight } of pool) {
        const share = (asked * weight) / whole;
        expect(Math.abs(inFlight - share)).toBeLessThanOrEqual(weights.length);
      }
    }
  });

  it("starves none, however long another takes", () => {
    const pool = poolOf(1, 1, 1);
    const [stuck] = pool;
    // Requests of the first never end, those of the others at once.
    for (let asked = 0; asked < 100; asked++) {
      const chosen = leastLoaded(pool)!;
      if (chosen === stuck) chosen.inFlight++;
    }
    expect(stuck!.inFlight).toBe(1);
    expect(leastLoaded([])).toBeUndefined();
  });
});

describe("holderOf", () => {
  it.each(weighed)("gives keys by weight: %j", (...weights) => {
    const pool = poolOf(...weights);
    const counts = countsOf(
      pool,
      keys.map((key) => holderOf(key, pool)!),
    );
    const whole = weights.reduce((sum, weight) => sum + weight, 0);
    for (const [at, weight] of weights.entries()) {
      const expected = (keys.length * weight) / whole;
      // Five deviations of a binomial distribution.
      const bound = 5 * Math.sqrt(expected * (1 - weight / whole));
      expect(Math.abs(counts[at]! - expected)).toBeLessThan(bound);
    }
  });

  it("gives a key the same endpoint, in whatever order they are named", () => {
    const pool = poolOf(1, 2, 1, 1);
    const turned = pool.toReversed();
    for (const key of keys.slice(0, 500)) {
      expect(holderOf(key, pool)).toBe(holderOf(key, turned));
    }
  });

  it("moves no other keys than those of the endpoint that goes, and back when it comes", () => {
    const pool = poolOf(1, 1, 2, 1);
    const [gone, ...left] = pool;
    for (const key of keys.slice(0, 1000)) {
      const before = holderOf(key, pool);
      const after = holderOf(key, left);
      if (before !== gone) expect(after).toBe(before);
    }
  });

  it("bounds the load of each, whatever the keys", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = seededRandom(seed);
      const pool = poolOf(
        ...Array.from({ length: 1 + randomInteger(random, 6) }, () => 0.2 + random.next() * 5),
      );
      const whole = pool.reduce((sum, { weight }) => sum + weight, 0);
      const popular = keys.slice(0, 1 + randomInteger(random, 3));
      const held: Endpoint[] = [];
      for (let step = 0; step < 300; step++) {
        // Some leave, in any order.
        if (random.next() < 0.3 && held.length > 0) {
          held.splice(randomInteger(random, held.length), 1)[0]!.inFlight--;
        }
        const chosen = holderOf(popular[randomInteger(random, popular.length)]!, pool)!;
        chosen.inFlight++;
        held.push(chosen);
        const share = (held.length * chosen.weight) / whole;
        expect(chosen.inFlight).toBeLessThanOrEqual(Math.ceil(loadBound * share));
      }
    }
  });

  it("has none of no endpoints", () => {
    expect(holderOf(1, [])).toBeUndefined();
  });
});
