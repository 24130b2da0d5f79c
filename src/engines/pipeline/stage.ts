import type { Clock } from "../../foundation/clock.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { StageState } from "../engine.ts";

/** The context of a row on its way through the stages. */
export interface RowCall {
  /** Index of the input row. */
  index: number;
  signal: AbortSignal;
  /** Counts tokens that were paid for the row. */
  addUsage(usage: Usage): void;
  /** Records that a model's answer reached its token limit. */
  noteCut(): void;
}

/** One stage from the pipeline's view. */
export interface Stage {
  readonly state: StageState;
  /** Rows that it can usefully hold: those in work, and as many waiting ones. */
  readonly capacity: number;
  /** Rows that may wait in it for others that never come, unless it is flushed. */
  readonly heldRows: number;
  /**
   * The result of a row.
   * @throws SluiceError why it fails.
   */
  take(row: JsonObject, call: RowCall): Promise<readonly JsonObject[]>;
  /** The common results of rows, for a stage whose results belong to no single row. */
  takeAll?(rows: readonly JsonObject[], call: RowCall): Promise<readonly JsonObject[]>;
  /** No more rows come before one leaves. */
  flush(): void;
  close(): Promise<void>;
}

export class StageCounts {
  rowsIn = 0;
  rowsOut = 0;
  failed = 0;
  calls = 0;
  busySeconds = 0;
  /** Rows that are in the stage. */
  inside = 0;

  /** Counts a row, or `count` of them, on the way through the stage. */
  async through(rows: Promise<readonly JsonObject[]>, count = 1): Promise<readonly JsonObject[]> {
    this.rowsIn += count;
    this.inside += count;
    try {
      const results = await rows;
      this.rowsOut += results.length;
      return results;
    } catch (error) {
      this.failed += count;
      throw error;
    } finally {
      this.inside -= count;
    }
  }

  /** Counts a call of the stage's code, and its time. */
  async timed<Result>(clock: Clock, call: () => Promise<Result>): Promise<Result> {
    const startedMs = clock.monotonic();
    try {
      return await call();
    } finally {
      this.calls++;
      this.busySeconds += (clock.monotonic() - startedMs) / 1000;
    }
  }

  /** @param waiting how many of the rows inside are not computed yet. */
  state(stage: string, waiting: number, replicas: number): StageState {
    const { rowsIn, rowsOut, failed, calls, inside } = this;
    const busySeconds = Math.round(this.busySeconds * 1e6) / 1e6;
    const inFlight = Math.max(0, inside - waiting);
    return { stage, waiting, inFlight, rowsIn, rowsOut, failed, calls, busySeconds, replicas };
  }
}
