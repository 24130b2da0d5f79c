import type { JobSpec } from "../job/schema.ts";
import { isBatchInput } from "../openai-batch/batch-lines.ts";
import type { Manifest } from "../seal/manifest.ts";

/** The proposed limit if none was known. */
const advisedTokens = 4096;

/**
 * The command that requests cut answers again, with twice the tokens. Undefined if rows or stages
 * name limits of their own, which no key of the job raises.
 *
 * @param run as an argument of a command.
 */
export function cutRetryOf(job: JobSpec, run: string): string | undefined {
  if (isBatchInput(job) || job.model.engine === "pipeline") return undefined;
  const { maxLength, maxNewTokens } = job.generation;
  const set =
    maxLength === undefined
      ? `generation.maxNewTokens=${maxNewTokens === undefined ? advisedTokens : 2 * maxNewTokens}`
      : `generation.maxLength=${2 * maxLength}`;
  return `sluice retry ${run} --where finish_reason=length --set ${set}`;
}

/** The notice at a seal about cut answers; undefined if there are none. */
export function cutNotice(
  { rows, cut }: Pick<Manifest, "rows" | "cut">,
  job: JobSpec,
  run: string,
): string | undefined {
  const text = cutText(rows.answered, cut);
  const command = cutRetryOf(job, run);
  return text === undefined || command === undefined ? text : `${text}: ${command}`;
}

/** The notice about cut answers; undefined if there are none. */
export function cutText(answered: number, cut: number | null | undefined): string | undefined {
  if (!cut) return undefined;
  const rows = answered === 1 ? "answered row has" : "answered rows have";
  return `${cut} of ${answered} ${rows} an answer that was cut at the limit of tokens`;
}
