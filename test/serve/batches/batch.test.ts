import { expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { Batch, type BatchObject } from "../../../src/serve/batches/batch.ts";
import { withCalls } from "../server-here.ts";

it("a batch stops also where that cannot be stored", async () => {
  const object = { id: "batch_1", status: "in_progress" } as BatchObject;
  let isFull = true;
  const storage = memoryStorage();
  const failing = withCalls(storage, {
    async replace(...of) {
      if (isFull) throw new Error("no space");
      await storage.replace(...of);
    },
  });
  const batch = new Batch({ batch: object }, failing);
  await expect(batch.stop("cancelled", { status: "cancelling" })).rejects.toThrow("no space");
  expect(batch.stopped.aborted).toBe(true);
  isFull = false;
  await batch.change({ status: "cancelled" });
  const stored = await storage.read("batch-records/batch_1.json");
  expect(JSON.parse(Buffer.from(stored).toString())).toMatchObject({
    ...{ stoppedBy: "cancelled", batch: { status: "cancelled" } },
  });
});
