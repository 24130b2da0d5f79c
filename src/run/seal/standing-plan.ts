import type { Storage } from "../../data/storage/storage.ts";
import { type Plan, readPlan } from "../plan/plan.ts";

/**
 * The plan of a run with all tasks as they are now: its own, unless a retry found rows appended to
 * the input, or mended in it.
 *
 * @param standing the generation whose plan has them; a manifest names it.
 */
export async function standingPlan(storage: Storage, standing = 1): Promise<Plan> {
  const first = await readPlan(storage);
  if (standing === 1) return first;
  const { whole, input, outputs, columns } = await readPlan(storage, standing);
  const { tasks, rows } = whole!;
  return {
    ...first,
    whole: whole!,
    tasks,
    rows,
    input,
    ...(outputs && { outputs }),
    ...(columns && { columns }),
  };
}
