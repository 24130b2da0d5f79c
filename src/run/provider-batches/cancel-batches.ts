import type { Storage } from "../../data/storage/storage.ts";
import type { BatchRecord } from "../../engines/batch-records.ts";
import type { EngineContext } from "../../engines/engine.ts";
import { describeEngine } from "../../engines/registry.ts";
import { planPathOf } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";
import { type Plan, readPlan } from "../plan/plan.ts";
import { committedTasks } from "../seal/commits.ts";
import { readSeals } from "../seal/seals.ts";
import { openBatchRecords } from "./batch-records.ts";

/**
 * Cancels what a run has at its provider. Answers that are there stay there, and the next call of
 * the run takes them.
 *
 * @param job of the last call of the run.
 * @returns the number of batches that were cancelled.
 * @throws SluiceError if the provider cannot be told.
 */
export async function cancelProviderBatches(
  storage: Storage,
  { model }: Pick<JobSpec, "model">,
  context: EngineContext,
): Promise<number> {
  const { sendsBatches, cancelBatches } = describeEngine(model);
  if (!cancelBatches || !sendsBatches?.(model)) return 0;
  const { last } = await readSeals(storage, await readPlan(storage));
  const plan = await readJson<Plan>(storage, planPathOf(last + 1));
  if (plan === undefined) return 0;
  const records = openBatchRecords({ storage, plan });
  const committed = await committedTasks(storage, plan);
  const open: { record: BatchRecord; batch: string | undefined }[] = [];
  for (let task = 0; task < plan.tasks.count; task++) {
    if (committed.has(task)) continue;
    for (const record of await records.list(task, 0)) {
      const batch = await records.idOf(record);
      if (batch !== null) open.push({ record, batch });
    }
  }
  return open.length === 0 ? 0 : await cancelBatches(model, context, records.run, open);
}
