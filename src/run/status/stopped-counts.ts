import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { type JournaledRun, journaledAttempts, journaledCounts } from "../bill/journaled.ts";

/** What became of the rows of tasks without a commit. */
export interface OpenCounts {
  answered: number;
  /** Answered rows with an answer that was cut; absent where workers alone told. */
  cut?: number;
  /** Requests that were answered; absent where workers alone told, who count rows. */
  responses?: number;
  usage: Usage;
}

/**
 * What journals hold of the tasks without a commit, whichever call put it there: what the next call
 * takes over.
 *
 * @param heard what workers said in this call. It counts where the journals cannot be read, or
 *   where more tasks are open than are worth looking at (`limits.maxCountedTasks`).
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
