import { expect, it, onTestFinished } from "vitest";
import type { KeptBatch } from "../../../../src/engines/batch-records.ts";
import { cancelBatches } from "../../../../src/engines/openai/batch/end-batches.ts";
import { openaiModel } from "../../../../src/engines/openai/options.ts";
import { openEngine } from "../../../../src/engines/registry.ts";
import { RecordedProvider } from "../../../recorded-provider.ts";
import { chatRequest, engineContext } from "../../engine-context.ts";
import { MemoryRecords } from "./memory-records.ts";

it("the open batches of a run are canceled, also one whose id was lost, and counted", async () => {
  const provider = await new RecordedProvider({ states: () => ["in_progress"] }).start();
  onTestFinished(() => provider.stop());
  const records = new MemoryRecords();
  const options = openaiModel.parse({
    ...{ engine: "openai", name: "m", baseUrl: provider.baseUrl, via: "batch" },
    batch: { maxBatchDelayMs: 20, pollMs: 10 },
  });
  const engine = await openEngine(options, engineContext({ batchRecords: records }));
  onTestFinished(() => engine.close());
  const stop = new AbortController();
  const rows = [0, 1000, 2000].map((row) => engine.infer(chatRequest(row), stop.signal));
  const statuses = () => provider.batches.map(({ status }) => status);
  await expect.poll(statuses).toEqual(["in_progress", "in_progress", "in_progress"]);
  stop.abort(new Error("left"));
  await Promise.allSettled(rows);
  provider.end(provider.batches[0]!, "completed");
  const kept = records.records.map((record, at): KeptBatch => {
    const batch = at === 2 ? undefined : (records.ids.get(record.key) ?? undefined);
    return { record, batch };
  });
  const cancel = () => cancelBatches(options, engineContext(), records.run, kept);
  expect(await cancel()).toBe(2);
  expect(statuses()).toEqual(["completed", "cancelled", "cancelled"]);
  expect(await cancel()).toBe(0);
});
