import fc from "fast-check";
import { Counter, Histogram, Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { CounterTally, HistogramTally } from "../../src/serve/tallies.ts";

const label = fc.constantFrom("a", 'b"\n\\', "");
const value = fc.integer({ min: 0, max: 40 }).map((tenths) => tenths / 10);

describe("tallies", () => {
  it("are written as counters and histograms of the library are", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(label, label, value)), async (given) => {
        const names = ["one", "two"];
        const buckets = [0.5, 1, 2.5];
        const [own, theirs] = [new Registry(), new Registry()];
        const counter = new CounterTally(own, "c", "help", names);
        const histogram = new HistogramTally(own, "h", "help", names, buckets);
        const common = { help: "help", labelNames: names, registers: [theirs] };
        const theirCounter = new Counter({ name: "c", ...common });
        const theirHistogram = new Histogram({ name: "h", buckets, ...common });
        for (const [one, two, more] of given) {
          counter.add([one, two], more);
          histogram.observe([one, two], more);
          theirCounter.inc({ one, two }, more);
          theirHistogram.observe({ one, two }, more);
        }
        expect(await own.metrics()).toBe(await theirs.metrics());
        expect(await own.getSingleMetricAsString("c")).toBe(
          await theirs.getSingleMetricAsString("c"),
        );
      }),
      { numRuns: 50 },
    );
  });
});
