import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { addErrors, type ErrorCounts } from "../attempt/commit.ts";
import type { TaskCounts } from "../worker/protocol.ts";
import type { RunningTask } from "./dispatched-task.ts";

/** Work in tasks that are not committed. */
export interface PartialCounts {
  /** Rows that were answered or filtered. */
  answered: number;
  failed: number;
  usage: Usage;
  errors: ErrorCounts;
}

/** What one call did, apart from the commits. */
export class DispatchTally {
  /** Rows that earlier calls had answered, in tasks of this call. */
  resumedRows = 0;
  generatedTokens = 0;
  partial: PartialCounts = { answered: 0, failed: 0, usage: noUsage, errors: {} };

  /** A task began, with the rows that earlier attempts had answered. */
  addStart({ state }: RunningTask, left: { resumed: number; resumedUsage: Usage }): void {
    if (!state.hasBegun) {
      this.resumedRows += left.resumed;
      state.resumedTokens = left.resumedUsage.completionTokens;
    }
    state.hasBegun = true;
  }

  /** Tokens of a task that this call no longer processes. */
  addTokens({ state }: RunningTask, { completionTokens }: Usage): void {
    this.generatedTokens += completionTokens - state.resumedTokens;
  }

  /** A task ends without a commit. */
  addPartial(counts: TaskCounts & { usage: Usage }): void {
    const { done, failed, usage, errors } = counts;
    const { partial } = this;
    partial.answered += done - failed;
    partial.failed += failed;
    partial.usage = addUsage(partial.usage, usage);
    partial.errors = addErrors(partial.errors, errors);
  }
}
