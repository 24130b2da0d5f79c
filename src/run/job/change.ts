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
  const { shard } = stored;
  // Earlier versions took both, and rows counted.
  const hasBoth = shard.rows !== undefined && shard.count !== undefined;
  const given = hasBoth ? { ...stored, shard: { ...shard, count: undefined } } : stored;
  const plain = JSON.parse(JSON.stringify(given)) as Record<string, Json>;
  for (const [key, value] of Object.entries(plain)) draft.set([key], value, { from: "default" });
  const changed = checkedJob(draft, await applyFlags(draft, {}, sets));
  const isKept = hasBoth && changed.shard.rows === shard.rows;
  const job = isKept ? { ...changed, shard } : changed;
  return withAbsolutePaths(job, { baseOf: () => workingDirectory, userDirectory });
}
