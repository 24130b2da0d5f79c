import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { addErrors, type ErrorCounts } from "../attempt/commit.ts";
import type { TaskCounts } from "../status/events.ts";
import type { RunningTask } from "./dispatched-task.ts";

/** What was done in tasks that are not committed. */
export interface PartialCounts {
  answered: number;
  failed: number;
  usage: Usage;
  errors: ErrorCounts;
}

/** What one call did, beside what commits say. */
export class DispatchTally {
  /** Rows of tasks that this call worked on and that earlier calls had answered. */
  resumedRows = 0;
  /** Tokens that were generated in this call. */
  generatedTokens = 0;
  partial: PartialCounts = { answered: 0, failed: 0, usage: noUsage, errors: {} };

  /** A task began, with what earlier attempts left of it. */
  addStart({ state }: RunningTask, left: { resumed: number; resumedUsage: Usage }): void {
    if (!state.hasBegun) {
      this.resumedRows += left.resumed;
      state.resumedTokens = left.resumedUsage.completionTokens;
    }
    state.hasBegun = true;
  }

  /** Tokens of a task that this call does not work on any more. */
  addTokens({ state }: RunningTask, { completionTokens }: Usage): void {
    this.generatedTokens += completionTokens - state.resumedTokens;
  }

  /** A task is left without a commit. */
  addPartial(counts: TaskCounts & { usage: Usage }): void {
    const { done, failed, usage, errors } = counts;
    const { partial } = this;
    partial.answered += done - failed;
    partial.failed += failed;
    partial.usage = addUsage(partial.usage, usage);
    partial.errors = addErrors(partial.errors, errors);
  }
}
