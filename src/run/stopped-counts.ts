import { addUsage, noUsage, type Usage } from "../foundation/inference.ts";
import { limits } from "../foundation/limits.ts";
import { type JournaledRun, journaledAnswers, journaledAttempts } from "./bill/journaled.ts";
import { JournaledRows } from "./journaled-rows.ts";

/** What became of the rows of tasks without a commit. */
export interface OpenCounts {
  answered: number;
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
  const { storage, plan } = run;
  if (plan.tasks.count - committed.size > limits.maxCountedTasks) return { answered, usage };
  const open = Array.from({ length: plan.tasks.count }, (_, task) => task);
  const tasks = open.filter((task) => !committed.has(task));
  try {
    let sum = noUsage;
    for (const task of tasks) {
      const attempts = (await journaledAttempts(run, task)).get(task);
      if (attempts) sum = addUsage(sum, await journaledAnswers(run, task, attempts));
    }
    const { rows } = await new JournaledRows(storage).count(plan, tasks);
    return { answered: rows, usage: sum };
  } catch {
    return { answered, usage };
  }
}
