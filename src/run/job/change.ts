import type { Json } from "../../foundation/json.ts";
import { checkedJob } from "./check.ts";
import { JobDraft } from "./draft.ts";
import { applyFlags } from "./layers.ts";
import type { JobSpec } from "./schema.ts";

/**
 * A stored job with some keys set to new values, such as by `sluice retry --set
 * generation.maxNewTokens=400`.
 *
 * @throws SluiceError `JOB_INVALID`, `OPTION_UNKNOWN`, with every problem.
 */
export async function changedJob(stored: JobSpec, sets: readonly string[]): Promise<JobSpec> {
  const draft = new JobDraft();
  const plain = JSON.parse(JSON.stringify(stored)) as Record<string, Json>;
  for (const [key, value] of Object.entries(plain)) draft.set([key], value, { from: "default" });
  return checkedJob(draft, await applyFlags(draft, {}, sets));
}
