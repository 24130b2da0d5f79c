import { afterAll, describe, expect, it } from "vitest";
import { makeInputs } from "./inputs.ts";
import { simulate } from "./simulate.ts";

const { TEST_SLUICE_SIMULATION_SEED: only, TEST_SLUICE_SIMULATION_SEEDS: count = "100" } =
  process.env;
const seeds =
  only === undefined ? Array.from({ length: Number(count) }, (_, at) => at + 1) : [Number(only)];
const seedsInOneTest = 50;

describe("simulated runs end sealed, whole and once", () => {
  const inputs = makeInputs();
  afterAll(() => inputs.remove());

  for (let at = 0; at < seeds.length; at += seedsInOneTest) {
    const group = seeds.slice(at, at + seedsInOneTest);
    it(`under the faults of seeds ${group[0]} to ${group.at(-1)}`, async () => {
      const failed: string[] = [];
      for (const seed of group) {
        const { violations, story } = await simulate(seed, inputs);
        if (only !== undefined) console.log(story);
        if (violations.length > 0) failed.push(story);
      }
      expect(failed.slice(0, 3), `${failed.length} of ${group.length} seeds failed`).toEqual([]);
    });
  }

  it("does the same thing each time under the same seed", async () => {
    for (const seed of seeds.slice(0, 5)) {
      const [first, second] = [await simulate(seed, inputs), await simulate(seed, inputs)];
      expect(second).toEqual(first);
    }
  });
});
