import { type Column, mergeColumns } from "../../data/columns.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { readJson } from "../directory/records.ts";
import type { PlannedFile } from "../plan/plan.ts";
import { assertTable } from "./own-columns.ts";

/** The columns of all tasks, and of each. */
export interface AllColumns {
  columns: readonly Column[];
  /** Columns of one task's rows. */
  of(file: PlannedFile): readonly Column[];
}

/**
 * Reads the columns that commits name, equal ones once, and joins them in the order of the tasks.
 *
 * @param known columns of what is published already, if anything is.
 * @throws SluiceError `RUN_DAMAGED` where a file of columns is missing.
 */
export async function allColumns(
  storage: Storage,
  files: Iterable<PlannedFile | undefined>,
  known?: readonly Column[],
): Promise<AllColumns> {
  const read = new Map<string, readonly Column[]>();
  let columns = known;
  for (const file of files) {
    if (!file || read.has(file.sha256)) continue;
    const own = await readJson<Column[]>(storage, file.path);
    if (!own) throw new SluiceError("RUN_DAMAGED", "the columns are missing", { file: file.path });
    read.set(file.sha256, own);
    columns = columns === undefined ? own : assertTable(mergeColumns(columns, own));
  }
  return { columns: columns ?? [], of: ({ sha256 }) => read.get(sha256)! };
}
