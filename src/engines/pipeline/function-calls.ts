import { type Clock, untilAborted } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import type { StageReplica } from "./batched-stage.ts";
import { type BatchFunction, GivenUp, type LabelledStage } from "./stage-code.ts";

/*
 * Functions of this program cannot be ended, only left to themselves. One that never settles must
 * hold neither the end of a run nor a loop that was aborted.
 */

/** Waits for what functions of rows promise. */
export class RowWaits {
  readonly #watch = new AbortWatch();
  #closedBy: SluiceError | undefined;

  /** @throws GivenUp as soon as the signal is aborted, or this is closed. */
  until(promised: PromiseLike<unknown>, signal: AbortSignal): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const held: Abortable = { abort: (reason) => reject(new GivenUp(reason)) };
    if (this.#closedBy) held.abort(this.#closedBy);
    else this.#watch.add(signal, held);
    // Not `finally`, which makes two more promises for each row.
    promised.then(
      (result) => {
        this.#watch.remove(signal, held);
        resolve(result);
      },
      (error: unknown) => {
        this.#watch.remove(signal, held);
        reject(error);
      },
    );
    return promise;
  }

  close(): void {
    this.#closedBy ??= closed();
    this.#watch.abortAll(this.#closedBy);
  }
}

/** A function of batches, or an instance of a class, as a replica. */
export class FunctionReplica implements StageReplica {
  readonly #call: BatchFunction;
  readonly #labelled: LabelledStage;
  readonly #clock: Clock;
  /** The batch in work; one at a time, also if an aborted one goes on. */
  #running: Promise<unknown> = Promise.resolve();
  #end: (error: SluiceError) => void = () => {};
  #isClosed = false;

  constructor(call: BatchFunction, labelled: LabelledStage, clock: Clock) {
    this.#call = call;
    this.#labelled = labelled;
    this.#clock = clock;
  }

  run(rows: readonly JsonObject[], signal: AbortSignal): ReturnType<BatchFunction> {
    const computed = this.#running.then(() => this.#inTime(rows, signal));
    this.#running = computed.catch(() => {});
    return untilAborted(computed, signal);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end(closed());
  }

  async #inTime(rows: readonly JsonObject[], signal: AbortSignal): ReturnType<BatchFunction> {
    signal.throwIfAborted();
    if (this.#isClosed) throw closed();
    const { stage, label } = this.#labelled;
    const { timeoutMs } = stage;
    const { promise: ended, reject } = Promise.withResolvers<never>();
    this.#end = reject;
    const cancel = this.#clock.schedule(timeoutMs, () => {
      const detail = `${label}: no results of a batch within ${timeoutMs / 1000} s (timeoutMs)`;
      reject(new SluiceError("STAGE_FAILED", detail));
    });
    try {
      return await Promise.race([this.#call(rows), ended]);
    } finally {
      cancel();
    }
  }
}

function closed(): SluiceError {
  return new SluiceError("ENGINE_DIED", "it was closed");
}
