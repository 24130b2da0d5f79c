import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { formatIndexSet, rangesOf } from "../../foundation/index-set.ts";
import { type Plan, readPlan } from "../plan/plan.ts";
import { committedTasks } from "../seal/commits.ts";

/** Tasks of a plan without a commit, in order. */
export function openTasks({ tasks }: Plan, committed: ReadonlySet<number>): number[] {
  const all = Array.from({ length: tasks.count }, (_, task) => task);
  return all.filter((task) => !committed.has(task));
}

/** The same as an index set; empty if all are committed. */
export function openTaskSet(plan: Plan, committed: ReadonlySet<number>): string {
  return formatIndexSet(rangesOf(openTasks(plan, committed)));
}

/** @throws SluiceError `RUN_OPEN`, naming the tasks that are not committed. */
export async function assertAllCommitted(storage: Storage): Promise<void> {
  const plan = await readPlan(storage);
  const open = openTaskSet(plan, await committedTasks(storage, plan));
  if (open === "") return;
  throw new SluiceError(
    "RUN_OPEN",
    `tasks ${open} of 0-${plan.tasks.count - 1} are not committed`,
    {
      hint: `sluice worker ${storage.location} --tasks ${open}`,
    },
  );
}
