import { describe, expect, it } from "vitest";
import { z } from "zod";
import { limits } from "../../../src/foundation/limits.ts";
import { plainValue } from "../../../src/run/job/plain-value.ts";

const cycle: Record<string, unknown> = {};
cycle.inner = [cycle];
const trap = () => {
  throw new Error("a trap");
};

describe("plainValue", () => {
  it("copies what JSON can hold, and what stands for it", () => {
    const given = {
      a: [1, undefined, "x"],
      b: undefined,
      c: 7n,
      at: new Date(0),
      constructor: null,
    };
    expect(plainValue(given)).toEqual({
      ...{ a: [1, null, "x"], c: 7, at: "1970-01-01T00:00:00.000Z", constructor: null },
    });
    expect(plainValue({ schema: z.string() })).toMatchObject({ schema: { type: "string" } });
  });

  it.each([
    [{ a: { b: 10n ** 20n } }, "beyond 2^53", "a.b"],
    [{ a: () => 1 }, "a function is not JSON", "a"],
    [{ a: [Symbol("s")] }, "a symbol is not JSON", "a.0"],
    [{ a: Object.defineProperty({}, "b", { get: trap, enumerable: true }) }, "a trap", "a"],
    [{ a: new Proxy({}, { ownKeys: trap }) }, "a trap", "a"],
    [{ a: "\0" }, "NUL", "a"],
    [JSON.parse('{"a":{"__proto__":1}}'), "cannot be a key", "a.__proto__"],
    [cycle, "holds itself", "inner.0.inner.0"],
    [{ a: new Array(limits.maxJobValues + 1) }, `over ${limits.maxJobValues} values`, "a"],
  ])("refuses what it cannot, naming the key", (value, problem, field) => {
    let thrown: { code?: string; message?: string } = {};
    try {
      plainValue(value, "job.yaml");
    } catch (error) {
      thrown = error as Error;
    }
    expect(thrown.code).toBe("JOB_INVALID");
    expect(thrown.message).toContain(problem);
    expect(thrown.message).toContain(`(job.yaml, field ${field}`);
  });
});
