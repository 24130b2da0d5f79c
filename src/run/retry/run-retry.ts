import { sortableId } from "../../foundation/ids.ts";
import { Coordinator } from "../coordinate/coordinator.ts";
import { type RunDependencies, runContext } from "../dependencies.ts";
import type { JobSpec } from "../job/schema.ts";
import type { RunLocation } from "../locate.ts";
import { carryOut, type RunJobOptions, type RunResult, withSharedLimits } from "../run-job.ts";
import type { Manifest } from "../seal/manifest.ts";
import { planRetry, type RetryWhere, retriedJob } from "./plan-retry.ts";
import { sealRetry } from "./seal-retry.ts";

export interface RunRetryOptions
  extends Pick<RunJobOptions, "backend" | "prepare" | "onEvent" | "signal"> {
  where: RetryWhere;
  /** The job as it is to be asked now, from the one that was asked last. */
  change(stored: JobSpec): Promise<JobSpec>;
}

/**
 * Asks rows of a sealed run again, as its next generation, and seals that. A row's result is only
 * replaced by a success. Running the same retry again goes on where it stopped.
 *
 * @returns undefined when there is no row to ask.
 * @throws SluiceError what `planRetry` throws, and `COORDINATOR_LIVES`.
 */
export async function runRetry(
  location: RunLocation,
  dependencies: RunDependencies,
  options: RunRetryOptions,
): Promise<RunResult | undefined> {
  const { clock, random, processes, openStorage } = dependencies;
  const startedMs = clock.monotonic();
  const storage = openStorage(location.directory);
  const { job } = await retriedJob(storage, options.change);
  const id = sortableId(clock, random);
  // Ruled before it is planned: a cleaning would take the tasks of a retry without a plan away.
  const coordinator = await Coordinator.rule({ storage, clock, processes, id, job });
  try {
    const found = await planRetry(storage, dependencies, options.where, options.change);
    if (!found) return undefined;
    const context = runContext(location, found.plan, dependencies, id);
    const opened = { context, location, job: found.plan.job };
    const present = await withSharedLimits(opened, options.backend);
    const seal = (engine: Manifest["engine"]) =>
      sealRetry(context, found.base, {
        engine,
        prices: found.plan.job.prices,
        assertRules: () => coordinator.assertRules(),
      });
    const seconds = () => (clock.monotonic() - startedMs) / 1000;
    const run = { ...opened, ...present, totalRows: found.base.rows.total, seal };
    return await carryOut(run, coordinator, options, seconds);
  } finally {
    await coordinator.end();
  }
}
