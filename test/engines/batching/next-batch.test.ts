import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type BatchBounds,
  type BatchCost,
  batchCost,
  nextBatch,
} from "../../../src/engines/batching/next-batch.ts";
import { seededRandom } from "../../../src/foundation/random.ts";

const lengths = (...tokens: number[]): BatchCost[] => tokens.map((each) => ({ tokens: each }));

describe("nextBatch", () => {
  it("takes requests as they came, up to the rows", () => {
    expect(nextBatch(lengths(9, 1, 5), { maxRows: 2 })).toEqual({ places: [0, 1], isFull: true });
    expect(nextBatch(lengths(9, 1), { maxRows: 3 })).toEqual({ places: [0, 1], isFull: false });
    expect(nextBatch([], { maxRows: 3 })).toEqual({ places: [], isFull: false });
  });

  it("closes before the request that would exceed the characters", () => {
    const waiting = [{ chars: 6 }, { chars: 4 }, { chars: 1 }];
    expect(nextBatch(waiting, { maxRows: 9, maxChars: 10 }).places).toEqual([0, 1]);
  });

  it("counts tokens padded to the longest", () => {
    const waiting = lengths(2, 2, 2, 5);
    expect(nextBatch(waiting, { maxRows: 9, maxTokens: 19 }).places).toEqual([0, 1, 2]);
    expect(nextBatch(waiting, { maxRows: 9, maxTokens: 20 }).places).toEqual([0, 1, 2, 3]);
  });

  it("lets a request beyond the limits go alone", () => {
    const bounds = { maxRows: 9, maxTokens: 10 };
    expect(nextBatch(lengths(50, 1), bounds)).toEqual({ places: [0], isFull: true });
  });

  it("puts requests of one length together, seen from the oldest", () => {
    const waiting = lengths(10, 400, 11, 390, 9);
    const bounds = { maxRows: 3, lookAheadRows: 8 };
    expect(nextBatch(waiting, bounds).places).toEqual([0, 2, 4]);
    // Beyond the look-ahead nothing is seen.
    expect(nextBatch(waiting, { maxRows: 3, lookAheadRows: 4 }).places).toEqual([0, 2, 3]);
  });

  it("keeps keys apart", () => {
    const waiting = [{ key: "en-fr" }, { key: "en-de" }, { key: "en-fr" }];
    expect(nextBatch(waiting, { maxRows: 9 }).places).toEqual([0, 2]);
  });
});

const waitingRequests = fc.array(
  fc.record({
    chars: fc.nat(60),
    tokens: fc.nat(60),
    key: fc.constantFrom(undefined, "a", "b"),
  }),
  { minLength: 1, maxLength: 60 },
);

const anyBounds: fc.Arbitrary<BatchBounds> = fc.record({
  maxRows: fc.integer({ min: 1, max: 20 }),
  maxChars: fc.option(fc.integer({ min: 1, max: 200 }), { nil: undefined }),
  maxTokens: fc.option(fc.integer({ min: 1, max: 400 }), { nil: undefined }),
  lookAheadRows: fc.constantFrom(undefined, 0, 5, 40),
});

describe("any batch", () => {
  it("has the oldest, one key, and no more than the limits unless it is one row", () => {
    fc.assert(
      fc.property(waitingRequests, anyBounds, (waiting, bounds) => {
        const { places } = nextBatch(waiting, bounds);
        const batch = places.map((place) => waiting[place]!);
        expect(places[0]).toBe(0);
        expect(places).toEqual([...new Set(places)].sort((one, other) => one - other));
        expect(new Set(batch.map(({ key }) => key)).size).toBe(1);
        const { chars, paddedTokens } = batchCost(batch);
        const { maxRows, maxChars = Infinity, maxTokens = Infinity } = bounds;
        expect(batch.length).toBeLessThanOrEqual(maxRows);
        if (batch.length > 1) {
          expect(chars).toBeLessThanOrEqual(maxChars);
          expect(paddedTokens).toBeLessThanOrEqual(maxTokens);
        }
      }),
    );
  });

  it("that has room has all that is in sight and of its key", () => {
    fc.assert(
      fc.property(waitingRequests, anyBounds, (waiting, bounds) => {
        const { places, isFull } = nextBatch(waiting, bounds);
        const inSight = waiting.slice(0, Math.max(bounds.lookAheadRows ?? 0, bounds.maxRows));
        const alike = inSight.filter(({ key }) => key === waiting[0]!.key);
        if (!isFull) expect(places.length).toBe(alike.length);
      }),
    );
  });

  it("answers each request once, after no more batches than requests before it", () => {
    fc.assert(
      fc.property(waitingRequests, anyBounds, (requests, bounds) => {
        let waiting = requests.map((cost, place) => ({ ...cost, place }));
        const answered: number[] = [];
        for (let batches = 0; waiting.length > 0; batches++) {
          const taken = new Set(nextBatch(waiting, bounds).places);
          for (const at of taken) {
            answered.push(waiting[at]!.place);
            expect(waiting[at]!.place).toBeGreaterThanOrEqual(batches);
          }
          waiting = waiting.filter((_, at) => !taken.has(at));
        }
        expect(answered.sort((one, other) => one - other)).toEqual(requests.map((_, at) => at));
      }),
    );
  });
});

/** Padded tokens for each real one, where the queue is kept full. */
function padding(tokens: readonly number[], bounds: BatchBounds): number {
  let waiting: BatchCost[] = [];
  let padded = 0;
  for (let next = 0; next < tokens.length || waiting.length > 0; ) {
    const room = Math.max(bounds.lookAheadRows ?? 0, bounds.maxRows) - waiting.length;
    waiting.push(...lengths(...tokens.slice(next, next + room)));
    next += room;
    const taken = new Set(nextBatch(waiting, bounds).places);
    padded += batchCost(waiting.filter((_, at) => taken.has(at))).paddedTokens;
    waiting = waiting.filter((_, at) => !taken.has(at));
  }
  return padded / tokens.reduce((sum, each) => sum + each, 0);
}

it("wastes little on padding where lengths differ as those of prompts do", () => {
  const random = seededRandom(1);
  const normal = () =>
    Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const tokens = Array.from({ length: 4000 }, () =>
    Math.min(512, Math.max(1, Math.round(Math.exp(3.9 + 1.1 * normal())))),
  );
  expect(padding(tokens, { maxRows: 32 })).toBeGreaterThan(4);
  expect(padding(tokens, { maxRows: 32, lookAheadRows: 256 })).toBeLessThan(1.4);
});
