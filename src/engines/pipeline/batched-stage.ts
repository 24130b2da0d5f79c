import { errorFromRecord, SluiceError, wordedError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { fromWire, toWire } from "../../foundation/typed-json.ts";
import { type Batched, batched } from "../batching/batched.ts";
import type { EngineContext, StageState } from "../engine.ts";
import type { HostedClient } from "../host/client.ts";
import type { StageOptions } from "./options.ts";
import { rowChars } from "./row-chars.ts";
import { type RowCall, type Stage, StageCounts } from "./stage.ts";
import type { BatchFunction } from "./stage-code.ts";

/** Characters of a stage's batch, if its size is not set. */
export const defaultStageChars = 4 * 1024 * 1024;

type Rows = readonly JsonObject[];

/** One replica of a stage: a function in this process, or one in its own process. */
export interface StageReplica {
  /** @param signal aborted when the results are not wanted any more. */
  run(rows: readonly JsonObject[], signal: AbortSignal): ReturnType<BatchFunction>;
  close(): Promise<void>;
}

export function hostedReplica(label: string, host: HostedClient, timeoutMs: number): StageReplica {
  return {
    async run(rows) {
      const items = rows.map(toWire);
      const { signal } = new AbortController();
      const replies = await host.runBatch(items, signal, timeoutMs).catch((thrown: unknown) => {
        throw ofStage(label, thrown);
      });
      return replies.map((reply) =>
        "error" in reply ? errorFromRecord(reply.error) : (fromWire(reply.value) as JsonObject[]),
      );
    },
    close: () => host.close(),
  };
}

/** The end of a process, with the stage's name, which errors of its code already have. */
function ofStage(label: string, thrown: unknown): unknown {
  if (!(thrown instanceof SluiceError) || thrown.scope === "row") return thrown;
  const { code, hint, message } = thrown;
  return wordedError(code, `stage ${label}: ${message}`, { hint, cause: thrown });
}

/**
 * A stage with code for batches: of exactly `batchSize` rows until the task ends or, if that is
 * not set, of the waiting rows, fewer if rows are large.
 */
export class BatchedStage implements Stage {
  readonly #label: string;
  readonly #replicas: readonly StageReplica[];
  readonly #batched: Batched<JsonObject, Rows>;
  readonly #batchSize: number | undefined;
  readonly #counts = new StageCounts();

  constructor(
    label: string,
    { batchSize }: Pick<StageOptions, "batchSize">,
    replicas: readonly StageReplica[],
    context: EngineContext,
  ) {
    this.#label = label;
    this.#replicas = replicas;
    this.#batchSize = batchSize;
    const models = replicas.map((replica) => ({
      run: (rows: Rows, signal: AbortSignal) =>
        this.#counts.timed(context.clock, () => replica.run(rows, signal)),
    }));
    const size =
      batchSize === undefined
        ? { maxBatchRows: limits.defaultStageRows, maxBatchChars: defaultStageChars }
        : { maxBatchRows: batchSize, fillsBatches: true };
    this.#batched = batched(models, size, context);
  }

  get state(): StageState {
    const { waiting } = this.#batched;
    return this.#counts.state(this.#label, waiting, this.#replicas.length);
  }

  get capacity(): number {
    return this.#batched.capacity;
  }

  get heldRows(): number {
    return this.#batchSize ?? 1;
  }

  take(row: JsonObject, { signal }: RowCall): Promise<Rows> {
    return this.#counts.through(this.#batched.infer(row, { chars: rowChars(row) }, signal));
  }

  flush(): void {
    this.#batched.flush();
  }

  async close(): Promise<void> {
    await Promise.all([this.#batched.close(), ...this.#replicas.map((replica) => replica.close())]);
  }
}
