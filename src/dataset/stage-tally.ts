import type { StageState } from "../engines/engine.ts";
import type { RunEvent } from "../run/status/events.ts";

/** The numbers in the label of a stage, or of several stages of rows, which run together. */
const stageNumbers = /^\d+|(?<=, )\d+(?= (?:map|filter|flatMap|select|rename)\b)/g;

/**
 * Sums up what the stages of a dataset did, over its runs one after another and their workers.
 * Stages are numbered through all runs.
 */
export class StageTally {
  #earlier: readonly StageState[] = [];
  /** Stages of the earlier runs. */
  #before = 0;
  /** The last message of each worker of the present run. */
  readonly #workers = new Map<string, readonly StageState[]>();

  /** Notes what a worker said last. */
  note(worker: string, stages: readonly StageState[]): void {
    this.#workers.set(worker, stages);
  }

  /** A listener for the events of a run, which hands them on. */
  hearing(onEvent?: (event: RunEvent) => void): (event: RunEvent) => void {
    return (event) => {
      const isProgress = event.type === "task-progress" || event.type === "task-end";
      if (isProgress && event.stages) this.note(event.worker, event.stages);
      return onEvent?.(event);
    };
  }

  /** The next run follows one of so many stages. */
  endRun(stages: number): void {
    this.#earlier = this.stages();
    this.#before += stages;
    this.#workers.clear();
  }

  stages(): StageState[] {
    const sums = new Map<string, StageState>();
    for (const states of this.#workers.values()) {
      for (const state of states) {
        const before = sums.get(state.stage);
        sums.set(state.stage, before === undefined ? { ...state } : sumOf(before, state));
      }
    }
    return [...this.#earlier, ...[...sums.values()].map((state) => this.#numbered(state))];
  }

  #numbered(state: StageState): StageState {
    const stage = state.stage.replace(stageNumbers, (own) => `${Number(own) + this.#before}`);
    return { ...state, stage };
  }
}

function sumOf(one: StageState, other: StageState): StageState {
  const sum = { ...one };
  for (const [name, value] of Object.entries(other) as [keyof StageState, number | string][]) {
    if (typeof value === "number") (sum[name] as number) += value;
  }
  return sum;
}
