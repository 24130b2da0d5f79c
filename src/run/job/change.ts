import type { Json } from "../../foundation/json.ts";
import { checkJob } from "./check.ts";
import { JobDraft } from "./draft.ts";
import { applyFlags } from "./layers.ts";
import { type Problem, problemsError } from "./problem.ts";
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
  const problems: Problem[] = await applyFlags(draft, {}, sets);
  const checked = checkJob(draft);
  if ("problems" in checked) problems.push(...checked.problems);
  if (problems.length > 0 || !("job" in checked)) throw problemsError(problems);
  return checked.job;
}
