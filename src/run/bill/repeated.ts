import { eachAtOnce } from "../../foundation/each-at-once.ts";
import type { Commit } from "../attempt/commit.ts";
import { repeatedTasksPrefix } from "../directory/layout.ts";
import { type JournaledRun, journaledAttempts } from "./journaled.ts";

export interface RepeatedTask {
  committed: string;
  /** All attempts with a journal, by age. */
  attempts: readonly string[];
}

const listsAtOnce = 32;

/** True unless the commit says that its attempt was the first one. */
export function mayRepeat({ earlierAttempts }: Pick<Commit, "earlierAttempts">): boolean {
  return earlierAttempts !== 0;
}

/**
 * The tasks that may have journals of more than one attempt, with these attempts. Every other task
 * has one journal, that of its committed attempt: so most folders need not be listed.
 *
 * @param committed all tasks, with the attempts of their commits.
 * @param known tasks whose commits say that they may.
 */
export async function repeatedTasks(
  run: JournaledRun,
  committed: Iterable<Pick<Commit, "task" | "attempt">>,
  known: ReadonlySet<number>,
): Promise<Map<number, RepeatedTask>> {
  // A note of one of the two tells of an attempt that began beside the committed one.
  const noted = await notedTasks(run);
  const repeated = new Map<number, RepeatedTask>();
  await eachAtOnce(committed, listsAtOnce, async ({ task, attempt }) => {
    if (!known.has(task) && !noted.has(task)) return;
    const attempts = (await journaledAttempts(run, task)).get(task) ?? [];
    repeated.set(task, { committed: attempt, attempts });
  });
  return repeated;
}

async function notedTasks({ storage, plan }: JournaledRun): Promise<Set<number>> {
  const prefix = repeatedTasksPrefix(plan);
  const tasks = new Set<number>();
  for await (const { path } of storage.list(prefix)) {
    tasks.add(Number(path.slice(prefix.length).split(".", 1)[0]));
  }
  return tasks;
}
