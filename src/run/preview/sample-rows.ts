import type { InputRow } from "../../data/row.ts";
import { rowsOfTask, TaskTable } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";

/** A row of the input, read ahead of a run. */
export interface SampledRow
  extends Pick<InputRow, "index" | "file" | "line" | "raw" | "value" | "error" | "dataset"> {
  /** Its task: rows of one task are neighbours, and may be alike. */
  task: number;
}

const maxSampledTasks = 10;

export async function firstRows(context: RunContext, count: number): Promise<SampledRow[]> {
  const found: SampledRow[] = [];
  const tasks = Array(context.plan.tasks.count).keys();
  await eachTask(context, tasks, async (rowsOf) => {
    found.push(...(await rowsOf(count - found.length)));
    return found.length < count;
  });
  return found;
}

/** At most `count` rows, from the starts of tasks that are spread evenly over the input. */
export async function spreadRows(context: RunContext, count: number): Promise<SampledRow[]> {
  const total = context.plan.tasks.count;
  // Small inputs are read whole.
  const size = context.plan.rows <= count ? total : Math.min(maxSampledTasks, total);
  const tasks = Array.from({ length: size }, (_, at) => Math.floor((at * total) / size));
  const found: SampledRow[] = [];
  await eachTask(context, tasks, async (rowsOf) => {
    found.push(...(await rowsOf(Math.ceil(count / size))));
    return true;
  });
  return found.slice(0, count);
}

async function eachTask(
  context: RunContext,
  tasks: Iterable<number>,
  visit: (rowsOf: (count: number) => Promise<SampledRow[]>) => Promise<boolean>,
): Promise<void> {
  const table = new TaskTable(context.storage, context.plan);
  try {
    for (const task of tasks) {
      const goesOn = await visit((count) => startOf(context, table, task, count));
      if (!goesOn) return;
    }
  } finally {
    await table.close();
  }
}

async function startOf(
  { plan, openFile }: RunContext,
  table: TaskTable,
  task: number,
  count: number,
): Promise<SampledRow[]> {
  const found: SampledRow[] = [];
  for await (const row of rowsOfTask(openFile, plan.job, await table.task(task))) {
    if (found.length >= count) break;
    found.push({ ...row, task });
  }
  return found;
}
