import type { InputRow } from "../../data/row.ts";
import type { Task } from "../plan/plan.ts";
import type { PreparedCounts } from "./commit.ts";

/** What an arrangement needs of its attempt. */
export interface ArrangedAttempt {
  readonly task: Task;
  /** Counts rows by whether their prompts were kept. */
  notePrepared(counts: PreparedCounts): void;
}

/** Puts rows into the order in which they are sent. */
export type RowArrangement = (
  batches: AsyncIterable<InputRow[]>,
  attempt: ArrangedAttempt,
) => AsyncIterable<InputRow[]>;

export const inInputOrder: RowArrangement = (batches) => batches;
