import type { JobSpec } from "../job/schema.ts";
import type { Plan } from "./plan.ts";

/** The present job, with what the stored plan decides. */
export function effectiveJob(plan: Plan, current: JobSpec): JobSpec {
  return {
    ...current,
    shard: plan.job.shard,
    output: plan.job.output,
    // It asks for the same, but may write out other defaults, which servers would be sent.
    generation: plan.job.generation,
  };
}
