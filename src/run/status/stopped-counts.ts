import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { AttemptCounts } from "../attempt/commit.ts";
import { type JournaledRun, journaledAttempts, openTaskCounts } from "../bill/journaled.ts";
import { asksList, promptsOfRow, sampleRequests } from "../preview/estimate.ts";
import type { RunContext } from "../run-context.ts";

/** The outcomes of rows in tasks without a commit. */
export interface OpenCounts {
  answered: number;
  /** Absent if only workers reported: their rows are among `answered`. */
  filtered?: number;
  /** Answered rows with an answer that reached its token limit; absent if only workers reported. */
  cut?: number;
  /** Requests with an answer; absent if only workers reported, because they count rows. */
  responses?: number;
  usage: Usage;
}

/**
 * The journals' content of the tasks without a commit, from whichever call: the next call takes it
 * over.
 *
 * @param heard reports of this call's workers. They count if the journals cannot be read, or if too
 *   many tasks are open to read them (`limits.maxCountedTasks`).
 */
export async function openCounts(
  run: JournaledRun,
  committed: ReadonlySet<number>,
  { answered, usage }: OpenCounts,
): Promise<OpenCounts> {
  const { plan } = run;
  if (plan.tasks.count - committed.size > limits.maxCountedTasks) return { answered, usage };
  const found = { answered: 0, filtered: 0, cut: 0, responses: 0, usage: noUsage };
  try {
    for (let task = 0; task < plan.tasks.count; task++) {
      if (committed.has(task)) continue;
      const attempts = (await journaledAttempts(run, task)).get(task);
      if (attempts === undefined) continue;
      const counts = await openTaskCounts(run, task, attempts);
      for (const key of ["answered", "filtered", "cut", "responses"] as const) {
        found[key] += counts[key];
      }
      found.usage = addUsage(found.usage, counts.paid);
    }
    return found;
  } catch {
    return { answered, usage };
  }
}

/** The requests of a run that stopped before its end. */
interface StoppedRequests {
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
