import { describe, expect, it } from "vitest";
import type { BatchRecord } from "../../../src/engines/batch-records.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { holdsOutcomes } from "../../../src/run/plan/standing-run.ts";
import { openBatchRecords } from "../../../src/run/provider-batches/batch-records.ts";
import { changedStorage, errorOf, pathsOf, plannedRun, rowsOf } from "../run-fixture.ts";

const record = (number: number, key: string): BatchRecord => ({
  ...{ key, task: 1, number, url: "/v1/chat/completions" },
  ...{ inputFile: `file-${key}`, inputCreatedAt: 5, requests: ["4-ab", "5-cd"] },
});

describe("the batches of a run at a provider", () => {
  it("are found by task, the oldest first, behind the known ones", async () => {
    const { context } = await plannedRun(rowsOf(10), { shard: { rows: 4 } });
    const records = openBatchRecords(context);
    for (let number = 11; number > 0; number--) await records.create(record(number, `k${number}`));
    const found = await records.list(1, 8);
    expect(found.map(({ number }) => number)).toEqual([9, 10, 11]);
    expect(await records.list(2, 0)).toEqual([]);
    expect((await records.list(1, 0))[0]).toEqual(record(1, "k1"));
    expect(records.run).toBe("20260101T000000Z");
    expect(records.placeOf(record(1, "k1"))).toContain(
      "_sluice/provider-batches/20260101t000000z.g1/1/",
    );
  });

  it("are of the task that has their row", async () => {
    const { context } = await plannedRun(rowsOf(10), { shard: { rows: 4 } });
    const records = openBatchRecords(context);
    const tasks = [0, 3, 4, 7, 8, 9].map((row) => records.taskOf(row));
    expect(await Promise.all(tasks)).toEqual([0, 0, 1, 1, 2, 2]);
  });

  it("find their task once the list of tasks can be read again", async () => {
    const { context } = await plannedRun(rowsOf(10), { shard: { rows: 4 } });
    let failures = 1;
    const storage = changedStorage(context.storage, (inner) => ({
      read: (path) =>
        failures-- > 0 ? Promise.reject(new SluiceError("STORE_FAILED")) : inner.read(path),
    }));
    const records = openBatchRecords({ ...context, storage });
    expect((await errorOf(records.taskOf(4))).code).toBe("STORE_FAILED");
    expect(await records.taskOf(4)).toBe(1);
  });

  it("belong to the process that kept them first, and so do their ids", async () => {
    const { context, storage } = await plannedRun(rowsOf(1));
    const [one, other] = [openBatchRecords(context), openBatchRecords(context)];
    expect(await holdsOutcomes(storage)).toBe(false);
    expect(await one.create(record(1, "a"))).toEqual(record(1, "a"));
    const standing = await other.create(record(1, "b"));
    expect(standing.key).toBe("a");
    expect(await other.idOf(standing)).toBeUndefined();
    expect(await one.keepId(standing, "batch_1")).toBe("batch_1");
    expect(await other.keepId(standing, "batch_2")).toBe("batch_1");
    expect(await other.keepId(standing, null)).toBe("batch_1");
    expect(await other.idOf(standing)).toBe("batch_1");
    const next = await one.create(record(2, "c"));
    expect(await one.keepId(next, null)).toBeNull();
    expect(await other.idOf(next)).toBeNull();
    // They may be paid for: another job does not replace the run without a word.
    expect(await holdsOutcomes(storage)).toBe(true);
    expect(await pathsOf(storage, "_sluice/provider-batches/")).toHaveLength(4);
  });

  it("of a retry are others than those of the run", async () => {
    const { context } = await plannedRun(rowsOf(1));
    const { storage, plan } = context;
    await openBatchRecords(context).create(record(1, "a"));
    const retry = openBatchRecords({ storage, plan: { ...plan, generation: 2 } });
    expect(await retry.list(1, 0)).toEqual([]);
    expect(retry.run).toBe("20260101T000000Z.g2");
  });
});
