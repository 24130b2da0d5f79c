import type { AttemptCounts } from "../attempt/commit.ts";
import { asksList, promptsOfRow, sampleRequests } from "../preview/estimate.ts";
import type { RunContext } from "../run-context.ts";
import type { OpenCounts } from "./stopped-counts.ts";

/** The requests of a run that stopped before its end. */
export interface StoppedRequests {
  /** Requests of all its rows. */
  planned: number;
  /** Those with an answer: everything in commits and journals. */
  answered: number;
}

/**
 * Counts the requests of a run that stopped. If lists decide how many a row has, rows that no
 * commit has counted are rendered for it: all of them in a small run, in a large one those of a
 * sample, from which the others are estimated.
 *
 * @param committed counts of the committed tasks.
 * @param open outcomes of the other tasks.
 */
export async function requestsOfStopped(
  context: RunContext,
  { rows, requests }: Pick<AttemptCounts, "rows" | "requests">,
  open: Pick<OpenCounts, "answered" | "responses">,
): Promise<StoppedRequests> {
  const { responses = open.answered * promptsOfRow(context.plan.job).length } = open;
  const answered = requests.answered + responses;
  const planned = await plannedRequests(context, { rows, requests });
  return { planned: Math.max(planned, answered), answered };
}

async function plannedRequests(
  context: RunContext,
  { rows, requests }: Pick<AttemptCounts, "rows" | "requests">,
): Promise<number> {
  const { plan } = context;
  const prompts = promptsOfRow(plan.job);
  const perRow = prompts.length;
  if (!prompts.some(asksList)) {
    return plan.rows * perRow;
  }
  // The run may have stopped because its input is gone: then each list counts as one element.
  const sampled = await sampleRequests(context).catch(() => []);
  const counts = sampled.map((row) => (row.error ? perRow : row.requests.length));
  const asked = counts.reduce((sum, count) => sum + count, 0);
  const mean = sampled.length === 0 ? perRow : asked / sampled.length;
  const isWhole = sampled.length === plan.rows;
  const uncommitted = Math.round((plan.rows - rows.total) * mean);
  return isWhole ? asked : requests.planned + uncommitted;
}
