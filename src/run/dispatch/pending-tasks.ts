import { eachTask, plannedRows } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";

export interface Pending {
  committed: ReadonlySet<number>;
  tasks: number[];
  committedRows: number;
  rowsOf(task: number): number;
}

/** The tasks without a commit. */
export async function pendingTasks(context: RunContext, committed: Set<number>): Promise<Pending> {
  const { plan, storage } = context;
  const tasks: number[] = [];
  const rows = new Map<number, number>();
  let committedRows = 0;
  for await (const task of eachTask(storage, plan)) {
    const planned = plannedRows(task);
    if (committed.has(task.task)) committedRows += planned;
    else {
      tasks.push(task.task);
      rows.set(task.task, planned);
    }
  }
  return { committed, tasks, committedRows, rowsOf: (task) => rows.get(task) ?? 0 };
}
