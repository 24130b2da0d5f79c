import type { JsonObject } from "../../foundation/json.ts";
import { type Batched, batched } from "../batching/batched.ts";
import type { EngineContext, StageState } from "../engine.ts";
import type { StageReplica } from "./batched-stage.ts";
import { rowChars } from "./row-chars.ts";
import { type RowCall, type Stage, StageCounts } from "./stage.ts";

type Rows = readonly JsonObject[];

/**
 * A stage whose batches become any number of rows. The rows of a batch decide its results: a batch
 * is never mixed with other rows, halved, or computed in part.
 */
export class WholeBatchStage implements Stage {
  readonly heldRows = 0;
  readonly #label: string;
  readonly #batchRows: number;
  readonly #replicas: readonly StageReplica[];
  readonly #batched: Batched<Rows, Rows>;
  readonly #counts = new StageCounts();

  constructor(
    label: string,
    batchRows: number,
    replicas: readonly StageReplica[],
    context: EngineContext,
  ) {
    this.#label = label;
    this.#batchRows = batchRows;
    this.#replicas = replicas;
    const models = replicas.map((replica) => ({
      run: ([rows]: readonly Rows[], signal: AbortSignal) =>
        this.#counts.timed(context.clock, () => replica.run(rows!, signal)),
    }));
    // Batches are the items here: a replica computes one at a time.
    this.#batched = batched(models, { maxBatchRows: 1 }, context);
  }

  get state(): StageState {
    const waiting = this.#batched.waiting * this.#batchRows;
    return this.#counts.state(this.#label, waiting, this.#replicas.length);
  }

  get capacity(): number {
    return this.#batched.capacity * this.#batchRows;
  }

  take(row: JsonObject, call: RowCall): Promise<Rows> {
    return this.takeAll([row], call);
  }

  async takeAll(rows: Rows, { signal }: RowCall): Promise<Rows> {
    const batches: Rows[] = [];
    for (let at = 0; at < rows.length; at += this.#batchRows) {
      batches.push(rows.slice(at, at + this.#batchRows));
    }
    const computed = batches.map((batch) => {
      const chars = batch.reduce((sum, row) => sum + rowChars(row), 0);
      return this.#counts.through(this.#batched.infer(batch, { chars }, signal), batch.length);
    });
    return (await Promise.all(computed)).flat();
  }

  flush(): void {}

  async close(): Promise<void> {
    await Promise.all([this.#batched.close(), ...this.#replicas.map((replica) => replica.close())]);
  }
}
