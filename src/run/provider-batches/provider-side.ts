import type { Storage } from "../../data/storage/storage.ts";
import type { KeptBatch } from "../../engines/batch-records.ts";
import type { EngineContext } from "../../engines/engine.ts";
import { describeEngine } from "../../engines/registry.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import { committedTasks } from "../attempt/commits.ts";
import { planPathOf } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";
import { type Plan, readPlan } from "../plan/plan.ts";
import { readSeals } from "../seal/seals.ts";
import { openBatchRecords } from "./batch-records.ts";

/** How long a run that replaces another one tries to tell the provider. */
const replacingPatienceMs = 15_000;

/**
 * Cancels what a run has at its provider. Answers that are there stay there, and the next call of
 * the run takes them.
 *
 * @param job of the last call of the run.
 * @param patienceMs longest time without success; default: `model.maxEndpointDownMs`.
 * @returns the number of batches that were cancelled.
 * @throws SluiceError if the provider cannot be told.
 */
export async function cancelProviderBatches(
  storage: Storage,
  { model }: Pick<JobSpec, "model">,
  context: EngineContext,
  patienceMs?: number,
): Promise<number> {
  const { sendsBatches, cancelBatches } = describeEngine(model);
  if (!cancelBatches || !sendsBatches?.(model)) return 0;
  const { last } = await readSeals(storage, await readPlan(storage));
  const plan = await readJson<Plan>(storage, planPathOf(last + 1));
  if (plan === undefined) return 0;
  const { run } = openBatchRecords({ storage, plan });
  const open = await keptBatches(storage, plan, false);
  return open.length === 0 ? 0 : await cancelBatches(model, context, run, open, patienceMs);
}

/** Cancels what a run has at its provider that another one replaces; failures are only logged. */
export async function cancelReplacedBatches(
  storage: Storage,
  { job }: Pick<Plan, "job">,
  context: EngineContext,
  logger: Logger,
): Promise<void> {
  try {
    const count = await cancelProviderBatches(storage, job, context, replacingPatienceMs);
    if (count === 0) return;
    const those = count === 1 ? "1 batch" : `${count} batches`;
    logger.log("warn", `${those} of the replaced run cancelled at the provider`);
  } catch (error) {
    const { message } = asSluiceError(error);
    logger.log("warn", `batches of the replaced run may still cost money: ${message}`);
  }
}

/**
 * Deletes the files of a run at its provider, as far as its tasks are committed.
 *
 * @returns why files stay, if they should not.
 */
export async function deleteProviderFiles(
  storage: Storage,
  plan: Plan,
  { model }: Pick<JobSpec, "model">,
  context: EngineContext,
): Promise<string | undefined> {
  const { sendsBatches, deleteBatchFiles } = describeEngine(model);
  if (!deleteBatchFiles || !sendsBatches?.(model)) return undefined;
  const done = await keptBatches(storage, plan, true);
  return done.length === 0 ? undefined : await deleteBatchFiles(model, context, done);
}

/** The batches of committed tasks, or those of the others. */
async function keptBatches(
  storage: Storage,
  plan: Plan,
  areCommitted: boolean,
): Promise<KeptBatch[]> {
  const records = openBatchRecords({ storage, plan });
  const committed = await committedTasks(storage, plan);
  const kept: KeptBatch[] = [];
  for (let task = 0; task < plan.tasks.count; task++) {
    if (committed.has(task) !== areCommitted) continue;
    for (const record of await records.list(task, 0)) {
      const batch = await records.idOf(record);
      if (batch !== null) kept.push({ record, batch });
    }
  }
  return kept;
}
