import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject } from "../../foundation/json.ts";
import { checkedJob } from "./check.ts";
import { JobDraft } from "./draft.ts";
import { withAbsolutePaths } from "./paths.ts";
import { plainValue } from "./plain-value.ts";
import type { JobInput, JobSpec } from "./schema.ts";

/**
 * A validated job from a program's value, with defaults filled in. No file and no environment is
 * read. Relative paths start from `workingDirectory`. A `schema` may be one of zod.
 *
 * @throws SluiceError `JOB_INVALID`, with every problem.
 * @example
 * const model = { engine: "fake" };
 * jobFromValue({ input: "rows.jsonl", model, prompt: "Say {{ text }}" }, "/data");
 */
export function jobFromValue(
  value: JobInput,
  workingDirectory: string,
  userDirectory?: string,
): JobSpec {
  const draft = new JobDraft();
  const plain = plainValue(value);
  if (!isJsonObject(plain)) {
    throw new SluiceError("JOB_INVALID", "a job is an object, or the path of a job file");
  }
  for (const [key, given] of Object.entries(plain)) {
    draft.set([key], given, { from: "default" });
  }
  return withAbsolutePaths(checkedJob(draft), { baseOf: () => workingDirectory, userDirectory });
}
