import { describe, expect, it } from "vitest";
import { limits } from "../../src/foundation/limits.ts";

describe("limits", () => {
  it("are whole numbers above zero that nobody changes", () => {
    const odd = Object.entries(limits).filter(([, value]) => !(value > 0) || value % 1 !== 0);
    expect(odd).toEqual([]);
    expect(Object.isFrozen(limits)).toBe(true);
  });
});
