import { describe, expect, it } from "vitest";
import {
  BatchSize,
  maxLookAheadRows,
  measuredBatches,
} from "../../../src/engines/batching/batch-size.ts";
import { limits } from "../../../src/foundation/limits.ts";

/** Rows at which it settles, where a batch of n rows takes `seconds(n)`. */
function settled(size: BatchSize, seconds: (rows: number) => number): number {
  for (let batch = 0; batch < 100; batch++) {
    const { maxRows } = size.bounds;
    size.computed(maxRows, seconds(maxRows));
  }
  return size.bounds.maxRows;
}

describe("an automatic number of rows", () => {
  it("grows while rows a second rise", () => {
    const size = new BatchSize({ maxBatchRows: "auto" });
    expect(size.bounds.maxRows).toBe(1);
    // Up to 16 rows cost what one costs; beyond, each costs its share.
    expect(settled(size, (rows) => Math.max(1, rows / 16))).toBe(16);
  });

  it("stays where a row alone is fastest", () => {
    expect(settled(new BatchSize({ maxBatchRows: "auto" }), (rows) => rows)).toBe(1);
  });

  it("has a bound", () => {
    const size = new BatchSize({ maxBatchRows: "auto" });
    expect(settled(size, () => 1)).toBe(limits.maxAutoBatchRows);
  });

  it("has the bound of the model as well", () => {
    const size = new BatchSize({ maxBatchRows: "auto", mostRows: 3 });
    for (let batch = 0; batch < 20; batch++) size.computed(size.bounds.maxRows, 1);
    expect(size.bounds.maxRows).toBe(3);
    expect(new BatchSize({ maxBatchRows: 8, mostRows: 3 }).bounds.maxRows).toBe(3);
    expect(new BatchSize({ maxBatchRows: 2, mostRows: 3 }).bounds.maxRows).toBe(2);
  });

  it("is not judged by one slow batch, nor by one that was not full", () => {
    const size = new BatchSize({ maxBatchRows: "auto" });
    let batches = 0;
    expect(settled(size, (rows) => (batches++ % 3 === 0 ? 60 : Math.max(1, rows / 16)))).toBe(16);
    const waiting = new BatchSize({ maxBatchRows: "auto" });
    for (let batch = 0; batch < measuredBatches; batch++) waiting.computed(1, 1);
    for (let batch = 0; batch < 10; batch++) waiting.computed(1, 60);
    expect(waiting.bounds.maxRows).toBe(2);
  });

  it("does not grow again to what did not fit", () => {
    const size = new BatchSize({ maxBatchRows: "auto" });
    while (size.bounds.maxRows < 8) size.computed(size.bounds.maxRows, 1);
    size.exceededMemory(Array(8).fill({}));
    expect(settled(size, () => 1)).toBe(4);
  });
});

describe("after a batch that did not fit into memory", () => {
  const batch = [{ chars: 10, tokens: 3 }, { chars: 30, tokens: 9 }, { chars: 20 }, { chars: 20 }];

  it("rows are halved where only they are limited", () => {
    const size = new BatchSize({ maxBatchRows: 4 });
    size.exceededMemory(batch);
    expect(size.bounds.maxRows).toBe(2);
    size.exceededMemory(batch.slice(0, 2));
    expect(size.bounds.maxRows).toBe(1);
  });

  it("padded tokens are halved where they are limited, and characters likewise", () => {
    const byTokens = new BatchSize({ maxBatchRows: 8, maxBatchTokens: 1000, maxBatchChars: 900 });
    byTokens.exceededMemory(batch);
    expect(byTokens.bounds).toMatchObject({ maxRows: 8, maxTokens: 18, maxChars: 900 });
    const byChars = new BatchSize({ maxBatchRows: 8, maxBatchChars: 900 });
    byChars.exceededMemory(batch);
    expect(byChars.bounds).toMatchObject({ maxRows: 8, maxChars: 40 });
  });

  it("a larger one that fails later loosens nothing", () => {
    const size = new BatchSize({ maxBatchRows: 8 });
    size.exceededMemory(batch.slice(0, 2));
    size.exceededMemory(batch);
    expect(size.bounds.maxRows).toBe(1);
  });
});

it("looks ahead by batches, within a bound", () => {
  const lookAheadBatches = 8;
  expect(new BatchSize({ maxBatchRows: 4, lookAheadBatches }).bounds.lookAheadRows).toBe(32);
  const large = new BatchSize({ maxBatchRows: 1024, lookAheadBatches });
  expect(large.bounds.lookAheadRows).toBe(maxLookAheadRows);
  expect(new BatchSize({ maxBatchRows: 4 }).bounds.lookAheadRows).toBe(0);
});
