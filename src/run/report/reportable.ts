import { SluiceError } from "../../foundation/errors.ts";
import type { JobSpec } from "../job/schema.ts";
import { isBatchInput, writesBatchLines } from "../openai-batch/batch-lines.ts";

/**
 * Refuses what a report has no place for.
 *
 * @throws SluiceError `JOB_INVALID`, naming the key.
 */
export function assertReportable(job: JobSpec): void {
  if (job.report === undefined) return;
  if (job.prompts !== undefined) throw invalid("prompts", "a row has one prompt");
  if (job.prompt?.forEach !== undefined) throw invalid("prompt.forEach", "a row has one prompt");
  if (writesBatchLines(job)) throw invalid("output.format", "it is made of results as jsonl");
  if (isBatchInput(job)) throw invalid("input.format", "rows are not requests");
}

function invalid(field: string, problem: string): SluiceError {
  return new SluiceError("JOB_INVALID", `with report axolotl ${problem}`, {
    field,
    hint: "leave report out, or change what it names",
  });
}
