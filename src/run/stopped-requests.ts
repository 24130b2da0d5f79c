import type { AttemptCounts } from "./attempt/commit.ts";
import { asksList, promptsOfRow, sampleRequests } from "./estimate.ts";
import type { RunContext } from "./run-context.ts";

/** The requests of a run that stopped before its end. */
export interface StoppedRequests {
  /** Of all its rows. */
  planned: number;
  /** Of the rows that were answered. */
  answered: number;
}

/**
 * Counts the requests of a run that stopped. Where lists decide how many a row takes, rows that no
 * commit has counted are rendered: each of them in a small run, in a large one those of a sample,
 * from which the others are estimated.
 *
 * @param committed counts of the tasks that are committed.
 * @param answeredRows rows that were answered in other tasks.
 */
export async function requestsOfStopped(
  context: RunContext,
  { rows, requests }: Pick<AttemptCounts, "rows" | "requests">,
  answeredRows: number,
): Promise<StoppedRequests> {
  const { planned, perRow } = await plannedRequests(context, { rows, requests });
  const answered = Math.min(planned, requests.answered + Math.round(answeredRows * perRow));
  return { planned, answered };
}

async function plannedRequests(
  context: RunContext,
  { rows, requests }: Pick<AttemptCounts, "rows" | "requests">,
): Promise<{ planned: number; perRow: number }> {
  const { plan } = context;
  const prompts = promptsOfRow(plan.job);
  const perRow = prompts.length;
  if (!prompts.some(asksList)) {
    return { planned: plan.rows * perRow, perRow };
  }
  // The run may have stopped because its input is gone: then each list counts as one element.
  const sampled = await sampleRequests(context).catch(() => []);
  const counts = sampled.map((row) => (row.error ? perRow : row.requests.length));
  const asked = counts.reduce((sum, count) => sum + count, 0);
  const mean = sampled.length === 0 ? perRow : asked / sampled.length;
  const isWhole = sampled.length === plan.rows;
  const uncommitted = Math.round((plan.rows - rows.total) * mean);
  return { planned: isWhole ? asked : requests.planned + uncommitted, perRow: mean };
}
