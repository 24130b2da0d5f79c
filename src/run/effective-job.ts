import type { JobSpec } from "./job/schema.ts";
import type { Plan } from "./plan.ts";

/** The present job, with what the stored plan decides. */
export function effectiveJob(plan: Plan, current: JobSpec): JobSpec {
  return {
    ...current,
    shard: plan.job.shard,
    output: plan.job.output,
    generation: { ...current.generation, seed: plan.seed },
  };
}
