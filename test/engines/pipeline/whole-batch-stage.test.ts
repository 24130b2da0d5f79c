import { describe, expect, it } from "vitest";
import { WholeBatchStage } from "../../../src/engines/pipeline/whole-batch-stage.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { engineContext } from "../engine-context.ts";

const call = {
  index: 0,
  signal: new AbortController().signal,
  addUsage() {},
  noteCut() {},
};

const rows = (count: number): JsonObject[] => Array.from({ length: count }, (_, id) => ({ id }));

describe("WholeBatchStage", () => {
  it("hands over batches of its size, in order, and counts their rows", async () => {
    const run = async (batch: readonly JsonObject[]) => [[{ of: batch.length }]];
    const replica = { run, close: async () => {} };
    const stage = new WholeBatchStage("1 mapBatches", 3, [replica, replica], engineContext());
    expect(await stage.takeAll(rows(7), call)).toEqual([{ of: 3 }, { of: 3 }, { of: 1 }]);
    expect(stage.state).toMatchObject({ rowsIn: 7, rowsOut: 3, calls: 3, waiting: 0, replicas: 2 });
    await stage.close();
  });

  it("computes no part of a batch that throws, though memory did not suffice", async () => {
    const sizes: number[] = [];
    const run = async (batch: readonly JsonObject[]): Promise<never> => {
      sizes.push(batch.length);
      throw new RangeError("Array buffer allocation failed");
    };
    const stage = new WholeBatchStage("x", 4, [{ run, close: async () => {} }], engineContext());
    await expect(stage.takeAll(rows(4), call)).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    expect(sizes).toEqual([4]);
    expect(stage.state).toMatchObject({ failed: 4, rowsOut: 0 });
    await stage.close();
  });
});
