import type { Usage } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { StageState } from "../engine.ts";

/** What goes along with a row through the stages. */
export interface RowCall {
  /** Index of the input row. */
  index: number;
  signal: AbortSignal;
  /** Counts tokens that were paid for the row. */
  addUsage(usage: Usage): void;
  /** Notes that a model's answer ended at its limit of tokens. */
  noteCut(): void;
}

/** One stage as the pipeline drives it. */
export interface Stage {
  readonly state: StageState;
  /** Rows that it can usefully hold: those it computes, and as many that wait. */
  readonly capacity: number;
  /** Rows that may wait in it for others that never come, unless it is flushed. */
  readonly heldRows: number;
  /** What a row becomes. @throws SluiceError why it fails. */
  take(row: JsonObject, call: RowCall): Promise<readonly JsonObject[]>;
  /** What rows become together, of a stage whose results belong to no single row. */
  takeAll?(rows: readonly JsonObject[], call: RowCall): Promise<readonly JsonObject[]>;
  /** Nothing more comes before something leaves. */
  flush(): void;
  close(): Promise<void>;
}

/** Counts what a stage does. */
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

  called(seconds: number): void {
    this.calls++;
    this.busySeconds += seconds;
  }

  /** @param waiting of the rows inside, those that are not computed yet. */
  state(stage: string, waiting: number, replicas: number): StageState {
    const { rowsIn, rowsOut, failed, calls, inside } = this;
    const busySeconds = Math.round(this.busySeconds * 1e6) / 1e6;
    const inFlight = Math.max(0, inside - waiting);
    return { stage, waiting, inFlight, rowsIn, rowsOut, failed, calls, busySeconds, replicas };
  }
}
