import type { InputRow } from "../../data/row.ts";
import type { Task } from "../plan/plan.ts";
import type { PreparedCounts } from "./commit.ts";

/** What arranging rows needs of the attempt that they belong to. */
export interface ArrangedAttempt {
  readonly task: Task;
  /** Counts rows by whether their prompts were prepared. */
  notePrepared(counts: PreparedCounts): void;
}

/** Puts rows into the order in which they are to be asked. */
export type RowArrangement = (
  batches: AsyncIterable<InputRow[]>,
  attempt: ArrangedAttempt,
) => AsyncIterable<InputRow[]>;

/** The order in which they lie. */
export const asTheyLie: RowArrangement = (batches) => batches;
