import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { type JournaledRun, journaledAttempts, openTaskCounts } from "../bill/journaled.ts";

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
