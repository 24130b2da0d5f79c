import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../src/foundation/clock.ts";
import { nameUuid, randomUuid, runIdAt, sortableId } from "../../src/foundation/ids.ts";
import { seededRandom } from "../../src/foundation/random.ts";

const at = (ms: number): Clock => ({ ...systemClock, now: () => ms });

describe("sortableId", () => {
  it("has 15 characters that every file system keeps", () => {
    expect(sortableId(systemClock, seededRandom(1))).toMatch(/^[0-9a-z]{15}$/);
  });

  it("sorts by the time it was made", () => {
    const time = fc.integer({ min: 0, max: 32 ** 9 - 1 });
    fc.assert(
      fc.property(time, time, fc.integer(), (first, second, seed) => {
        fc.pre(first < second);
        const random = seededRandom(seed);
        return sortableId(at(first), random) < sortableId(at(second), random);
      }),
    );
  });

  it("differs within a millisecond", () => {
    const random = seededRandom(5);
    const ids = Array.from({ length: 1000 }, () => sortableId(at(1), random));
    expect(new Set(ids).size).toBe(1000);
  });
});

describe("runIdAt", () => {
  it("is the UTC second", () => {
    expect(runIdAt(Date.UTC(2023, 7, 1, 13, 7, 12, 999))).toBe("20230801T130712Z");
  });
});

describe("UUIDs", () => {
  it("of names are those of RFC 9562", () => {
    // Its namespace of DNS, and its example of version 5.
    const names = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    expect(nameUuid(names, "www.example.com")).toBe("2ed6657d-e927-568b-95e1-2665a8aea6a2");
  });

  it("that are random have their version and variant", () => {
    const form = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    const random = seededRandom(2);
    const made = Array.from({ length: 200 }, () => randomUuid(random));
    for (const id of made) expect(id).toMatch(form);
    expect(new Set(made).size).toBe(200);
  });
});
