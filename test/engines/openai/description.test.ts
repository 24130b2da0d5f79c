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

  it("are none where the job gives none, and stay as they are for one worker", () => {
    expect(sharedAmong({}, 4)).toEqual(optionsOf({}));
    expect(sharedAmong({ maxInFlight: 5 }, 1)).toEqual(optionsOf({ maxInFlight: 5 }));
  });
});
