import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  dateOf,
  dateText,
  type TimeUnit,
  timeOf,
  timestampOf,
  timestampText,
  timeText,
} from "../../src/data/moments.ts";

const units: TimeUnit[] = ["milliseconds", "microseconds", "nanoseconds"];

describe("timestamps", () => {
  it("are ISO 8601", () => {
    expect(timestampText(1_500n, "milliseconds", true)).toBe("1970-01-01T00:00:01.500Z");
    expect(timestampText(-1n, "nanoseconds", false)).toBe("1969-12-31T23:59:59.999999999");
    expect(timestampText(253_402_300_800_000n, "milliseconds", true)).toBe(
      "+010000-01-01T00:00:00.000Z",
    );
  });

  it("come back from their text, whatever they are", () => {
    const since = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    fc.assert(
      fc.property(since, fc.constantFrom(...units), fc.boolean(), (value, unit, isUtc) => {
        const text = timestampText(value, unit, isUtc);
        if (text !== undefined) expect(timestampOf(text, unit, isUtc)).toBe(value);
      }),
    );
    expect(timestampText(2n ** 63n - 1n, "microseconds", true)).toBeUndefined();
  });

  it("are taken with fewer digits, and with more where these are zeros", () => {
    expect(timestampOf("1970-01-01T00:00:01Z", "milliseconds", true)).toBe(1_000n);
    expect(timestampOf("1970-01-01T00:00:01.5Z", "microseconds", true)).toBe(1_500_000n);
    expect(timestampOf("1970-01-01T00:00:01.500000Z", "milliseconds", true)).toBe(1_500n);
    expect(timestampOf("1970-01-01T00:00:01.500001Z", "milliseconds", true)).toBeUndefined();
  });

  it.each([
    ["another text", "yesterday"],
    ["the zone is missing", "2024-01-01T00:00:00"],
    ["a day that is none", "2023-02-29T00:00:00Z"],
    ["an hour that is none", "2023-02-28T24:00:00Z"],
    ["beyond 64 bits", "2300-01-01T00:00:00Z"],
  ])("are refused: %s", (_name, text) => {
    expect(timestampOf(text, "nanoseconds", true)).toBeUndefined();
  });
});

describe("dates", () => {
  it("come back from their text", () => {
    expect(dateText(19_782)).toBe("2024-02-29");
    fc.assert(
      fc.property(fc.integer({ min: -90_000_000, max: 90_000_000 }), (days) => {
        expect(dateOf(dateText(days)!)).toBe(days);
      }),
    );
    expect(dateText(2 ** 31 - 1)).toBeUndefined();
    expect(dateOf("2023-02-29")).toBeUndefined();
    expect(dateOf("2023-02-28T00:00")).toBeUndefined();
  });
});

describe("times", () => {
  it("come back from their text", () => {
    expect(timeText(47_100_250n, "milliseconds")).toBe("13:05:00.250");
    const since = fc.bigInt({ min: 0n, max: 86_400_000n - 1n });
    fc.assert(
      fc.property(since, (value) => {
        expect(timeOf(timeText(value, "milliseconds")!, "milliseconds")).toBe(value);
      }),
    );
    expect(timeText(86_400_000n, "milliseconds")).toBeUndefined();
    expect(timeOf("24:00:00", "milliseconds")).toBeUndefined();
    expect(timeOf("00:00:60", "milliseconds")).toBeUndefined();
  });
});
