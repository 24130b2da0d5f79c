import type { StageState } from "../engines/engine.ts";
import type { RunEvent } from "../run/status/events.ts";

/** What the stages of a run did, from what its workers tell. */
export class StageTally {
  /** The last that each worker said. */
  readonly #workers = new Map<string, readonly StageState[]>();

  hear(event: RunEvent): void {
    if (event.type !== "task-progress" && event.type !== "task-end") return;
    if (event.stages) this.#workers.set(event.worker, event.stages);
  }

  /** Each stage, all workers together. */
  stages(): StageState[] {
    const sums = new Map<string, StageState>();
    for (const states of this.#workers.values()) {
      for (const state of states) {
        const before = sums.get(state.stage);
        sums.set(state.stage, before === undefined ? { ...state } : sumOf(before, state));
      }
    }
    return [...sums.values()];
  }
}

function sumOf(one: StageState, other: StageState): StageState {
  const sum = { ...one };
  for (const [name, value] of Object.entries(other) as [keyof StageState, number | string][]) {
    if (typeof value === "number") (sum[name] as number) += value;
  }
  return sum;
}
