import type { Json } from "../../foundation/json.ts";
import { checkedJob } from "./check.ts";
import { JobDraft } from "./draft.ts";
import { applyFlags } from "./layers.ts";
import { withAbsolutePaths } from "./paths.ts";
import type { JobSpec } from "./schema.ts";

/**
 * A stored job with some keys set to new values, such as by `sluice retry --set
 * generation.maxNewTokens=400`. Relative paths in them start from `workingDirectory`.
 *
 * @throws SluiceError `JOB_INVALID`, `OPTION_UNKNOWN`, with every problem.
 */
export async function changedJob(
  stored: JobSpec,
  sets: readonly string[],
  workingDirectory: string,
  userDirectory: string,
): Promise<JobSpec> {
  const draft = new JobDraft();
  const plain = JSON.parse(JSON.stringify(stored)) as Record<string, Json>;
  for (const [key, value] of Object.entries(plain)) draft.set([key], value, { from: "default" });
  const job = checkedJob(draft, await applyFlags(draft, {}, sets));
  return withAbsolutePaths(job, { baseOf: () => workingDirectory, userDirectory });
}
