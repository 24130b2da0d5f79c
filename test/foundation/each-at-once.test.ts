import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { eachAtOnce } from "../../src/foundation/each-at-once.ts";

describe("eachAtOnce", () => {
  it("handles every item, and never more than the given number at once", async () => {
    const done: number[] = [];
    let [inWork, most] = [0, 0];
    await eachAtOnce([1, 2, 3, 4, 5], 2, async (item) => {
      most = Math.max(most, ++inWork);
      await setImmediate();
      inWork--;
      done.push(item);
    });
    expect(done.sort()).toEqual([1, 2, 3, 4, 5]);
    expect(most).toBe(2);
  });

  it("throws the first failure after the items in progress, and begins no others", async () => {
    const [begun, ended]: [number[], number[]] = [[], []];
    const handling = eachAtOnce([1, 2, 3, 4], 2, async (item) => {
      begun.push(item);
      if (item === 1) throw new Error("the first");
      await setImmediate();
      ended.push(item);
    });
    await expect(handling).rejects.toThrow("the first");
    expect(begun).toEqual([1, 2]);
    expect(ended).toEqual([2]);
  });
});
