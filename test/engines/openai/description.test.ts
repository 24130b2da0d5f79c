import { describe, expect, it } from "vitest";
import { openaiDescription } from "../../../src/engines/openai/description.ts";
import { openaiModel } from "../../../src/engines/openai/options.ts";

const optionsOf = (changes: object) =>
  openaiModel.parse({ engine: "openai", name: "m", ...changes });
const sharedAmong = (changes: object, workers: number) =>
  openaiDescription.sharedAmong!(optionsOf(changes), workers);

describe("limits that are for all workers together", () => {
  it("are never exceeded by their sum", () => {
    const given = { maxInFlight: 5, requestsPerMinute: 60, tokensPerMinute: 1000 };
    const shared = sharedAmong(given, 7);
    expect(shared).toMatchObject({ maxInFlight: 1 });
    expect(sharedAmong(given, 2)).toMatchObject({ maxInFlight: 2, requestsPerMinute: 30 });
    expect(7 * shared.requestsPerMinute!).toBeCloseTo(60);
    expect(7 * shared.tokensPerMinute!).toBeCloseTo(1000);
  });

  it("hold for batches as well, of which each worker has at least one", () => {
    expect(sharedAmong({ via: "batch" }, 2)).toMatchObject({ batch: { maxBatches: 2 } });
    const batch = { maxBatches: 3, pollMs: 7 };
    expect(sharedAmong({ via: "batch", batch }, 8)).toMatchObject({
      batch: { maxBatches: 1, pollMs: 7 },
    });
  });

  it("are none where the job gives none, and stay as they are for one worker", () => {
    expect(sharedAmong({}, 4)).toEqual(optionsOf({}));
    expect(sharedAmong({ maxInFlight: 5 }, 1)).toEqual(optionsOf({ maxInFlight: 5 }));
  });
});

describe("tasks of a model that is sent batches", () => {
  const { taskRows, maxOpenTasks, sendsBatches } = openaiDescription;

  it("are as many as batches at once, and no larger than a batch", () => {
    const options = optionsOf({ via: "batch", batch: { maxBatches: 8, maxRequests: 1000 } });
    expect(taskRows!(options, 4001)).toBe(501);
    expect(taskRows!(options, 1e6)).toBe(1000);
    expect(maxOpenTasks!(options)).toBe(8);
    expect(sendsBatches!(options)).toBe(true);
  });

  it("are as ever without batches", () => {
    const options = optionsOf({});
    expect([taskRows!(options, 100), maxOpenTasks!(options)]).toEqual([undefined, undefined]);
    expect(sendsBatches!(options)).toBe(false);
  });
});
