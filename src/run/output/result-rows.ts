import type { Slice } from "../../data/row.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { readLines } from "../directory/lines.ts";
import type { Task } from "../plan/plan.ts";
import { failedRowsOf } from "../retry/cut-rows.ts";
import { plannedIndexes, readLineCounts } from "../retry/merge-task.ts";
import type { ManifestTask } from "../seal/manifest.ts";

export interface ResultRow {
  index: number;
  /** Its place in the input. */
  slice: Slice;
  /** Empty if it failed or was left out. */
  lines: string[];
}

/** The rows of a task in input order, with the result lines of each. */
export async function* resultRows(
  storage: Storage,
  task: Task,
  entry: ManifestTask,
): AsyncGenerator<ResultRow> {
  const failed = new Set((await failedRowsOf(storage, entry)).map(({ index }) => index));
  const counts = await readLineCounts(storage, entry.lineCounts);
  const all = readLines(storage, entry.source!.path);
  const sliceOf = slicesByRow(task);
  try {
    for (const index of plannedIndexes(task)) {
      const count = failed.has(index) ? 0 : (counts.get(index) ?? 1);
      const lines: string[] = [];
      while (lines.length < count) lines.push((await all.next()).value!);
      yield { index, slice: sliceOf(index), lines };
    }
  } finally {
    await all.return(undefined);
  }
}

function slicesByRow({ slices, firstRow }: Task): (index: number) => Slice {
  let at = 0;
  let end = firstRow + slices[0]!.rows;
  return (index) => {
    while (index >= end) end += slices[++at]!.rows;
    return slices[at]!;
  };
}
