import type { Storage } from "../data/storage/storage.ts";
import type { RunDependencies } from "./dependencies.ts";
import type { RunLocation } from "./directory/locate.ts";
import { runStorage } from "./directory/run-storage.ts";
import type { JobSpec } from "./job/schema.ts";
import { type Plan, readPlan } from "./plan/plan.ts";
import { openRetry } from "./retry/abandon-retry.ts";
import { assertLoadable, lastJob, type RowsOfRetry } from "./retry/plan-retry.ts";
import { resumeRetry } from "./retry/run-retry.ts";
import { type CallOptions, type RunJobOptions, runJob } from "./run-job.ts";
import { readManifest } from "./seal/seals.ts";
import type { RunResult } from "./status/run-result.ts";

export interface ResumeRunOptions extends CallOptions, Pick<RunJobOptions, "cancelsBefore"> {
  /** Changes how the run continues; default: as before. */
  change?(stored: JobSpec): Promise<JobSpec>;
  /**
   * Carries out a job whose coordinator is elsewhere, or an unfinished retry of its run; undefined
   * if it is here.
   */
  elsewhere?(job: JobSpec, rows?: RowsOfRetry): Promise<RunResult | undefined> | undefined;
}

/**
 * Continues the run at a place, by its own job of the last call: with its retry, if one was begun.
 * A finished run is left unchanged.
 *
 * @throws SluiceError `NOT_A_RUN`, and errors of `runJob` and `resumeRetry`.
 */
export async function resumeRun(
  location: RunLocation,
  dependencies: RunDependencies,
  { change = async (job) => job, elsewhere, ...options }: ResumeRunOptions,
): Promise<RunResult> {
  const storage = runStorage(dependencies.openStorage(location.directory));
  const plan = await readPlan(storage);
  if (await openRetry(storage, plan)) {
    const asked = { ...options, change, elsewhere };
    const retried = await resumeRetry(location, dependencies, asked);
    if (retried) return retried;
  }
  const job = await change(await jobOfRun(storage, plan, location));
  const delegated = await elsewhere?.(job);
  if (delegated) return delegated;
  // The input of a sealed run is not read again, so it may be gone.
  const skipsInputCheck = (await readManifest(storage)) !== undefined;
  if (!skipsInputCheck)
    assertLoadable(job, "run that program again: it continues where it stopped");
  return await runJob(job, dependencies, {
    ...options,
    skipsInputCheck,
    overwrite: false,
    fork: false,
  });
}

/** The job of the last call at the run's place, which may have moved. */
async function jobOfRun(storage: Storage, plan: Plan, location: RunLocation): Promise<JobSpec> {
  const { directory, outside, mergedFile, pattern } = location;
  const file = mergedFile ?? pattern;
  const path = file === null ? directory : `${outside}/${file}`;
  return { ...(await lastJob(storage, plan)), output: { ...plan.job.output, path } };
}
