import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { type JournaledRun, journaledAttempts, journaledCounts } from "../bill/journaled.ts";

/** The outcomes of rows in tasks without a commit. */
export interface OpenCounts {
  answered: number;
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
  const found = { answered: 0, cut: 0, responses: 0, usage: noUsage };
  try {
    for (let task = 0; task < plan.tasks.count; task++) {
      if (committed.has(task)) continue;
      const attempts = (await journaledAttempts(run, task)).get(task);
      if (attempts === undefined) continue;
      const { paid, rows, cut, responses } = await journaledCounts(run, task, attempts);
      found.answered += rows;
      found.cut += cut;
      found.responses += responses;
      found.usage = addUsage(found.usage, paid);
    }
    return found;
  } catch {
    return { answered, usage };
  }
}
