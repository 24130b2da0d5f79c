import { describe, expect, it } from "vitest";
import {
  holderOf,
  leastLoaded,
  loadBound,
  textHash,
} from "../../../../src/engines/openai/routing/router.ts";
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
const fleetOf = (...weights: number[]) => weights.map((weight, at) => named(`host-${at}`, weight));
const keys = Array.from({ length: 5000 }, (_, at) => textHash(`prefix ${at}`));
const weighed = [
  [1, 1],
  [1, 1, 1, 1, 1],
  [3, 1],
  [0.5, 2, 7],
];

/** How many of `asked` each endpoint was chosen for. */
function countsOf(fleet: readonly Endpoint[], chosen: readonly Endpoint[]): number[] {
  return fleet.map((endpoint) => chosen.filter((it) => it === endpoint).length);
}

describe("leastLoaded", () => {
  it.each(weighed)("keeps the requests in flight within one of the weights: %j", (...weights) => {
    const fleet = fleetOf(...weights);
    const whole = weights.reduce((sum, weight) => sum + weight, 0);
    for (let asked = 1; asked <= 300; asked++) {
      leastLoaded(fleet)!.inFlight++;
      for (const { inFlight, weight } of fleet) {
        const share = (asked * weight) / whole;
        expect(Math.abs(inFlight - share)).toBeLessThanOrEqual(weights.length);
      }
    }
  });

  it("starves none, however long another takes", () => {
    const fleet = fleetOf(1, 1, 1);
    const [stuck] = fleet;
    // Requests of the first never end, those of the others at once.
    for (let asked = 0; asked < 100; asked++) {
      const chosen = leastLoaded(fleet)!;
      if (chosen === stuck) chosen.inFlight++;
    }
    expect(stuck!.inFlight).toBe(1);
    expect(leastLoaded([])).toBeUndefined();
  });
});

describe("holderOf", () => {
  it.each(weighed)("gives keys by weight: %j", (...weights) => {
    const fleet = fleetOf(...weights);
    const counts = countsOf(
      fleet,
      keys.map((key) => holderOf(key, fleet)!),
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
    const fleet = fleetOf(1, 2, 1, 1);
    const turned = fleet.toReversed();
    for (const key of keys.slice(0, 500)) {
      expect(holderOf(key, fleet)).toBe(holderOf(key, turned));
    }
  });

  it("moves no other keys than those of the endpoint that goes, and back when it comes", () => {
    const fleet = fleetOf(1, 1, 2, 1);
    const [gone, ...left] = fleet;
    for (const key of keys.slice(0, 1000)) {
      const before = holderOf(key, fleet);
      const after = holderOf(key, left);
      if (before !== gone) expect(after).toBe(before);
    }
  });

  it("bounds the load of each, whatever the keys", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = seededRandom(seed);
      const fleet = fleetOf(
        ...Array.from({ length: 1 + randomInteger(random, 6) }, () => 0.2 + random.next() * 5),
      );
      const whole = fleet.reduce((sum, { weight }) => sum + weight, 0);
      const popular = keys.slice(0, 1 + randomInteger(random, 3));
      const held: Endpoint[] = [];
      for (let step = 0; step < 300; step++) {
        // Some leave, in any order.
        if (random.next() < 0.3 && held.length > 0) {
          held.splice(randomInteger(random, held.length), 1)[0]!.inFlight--;
        }
        const chosen = holderOf(popular[randomInteger(random, popular.length)]!, fleet)!;
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
