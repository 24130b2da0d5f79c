import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Span } from "../../foundation/telemetry.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import { type BatchLimits, BatchSize } from "./batch-size.ts";
import { miscounted } from "./miscounted.ts";
import { type BatchBounds, type BatchCost, nextBatch, rowsInSight } from "./next-batch.ts";
import { diedOfMemory, isOutOfMemory } from "./out-of-memory.ts";
import { type Waiting, WaitingQueue } from "./waiting-queue.ts";

/** One replica of a model that computes several items at once. */
export interface BatchModel<Item, Result> {
  /**
   * Computes a batch.
   *
   * @param signal aborted when none of the items is needed any more.
   * @returns a result or an error for each item, in their order. An error of missing memory counts
   *   as if it were thrown.
   * @throws anything: the batch is halved until the guilty item is alone, and gets the error. After
   *   an error of missing memory, all later batches are smaller, until a row turns out not to fit
   *   alone: then that row was the cause. A `SluiceError` of scope `engine` or `run`, or
   *   `RESULTS_MISCOUNTED`, is the error of every item, and nothing is halved; so is a wrong number
   *   of results.
   */
  run(batch: readonly Item[], signal: AbortSignal): Promise<readonly (Result | Error)[]>;
}

/** Takes single items and has them computed in batches. */
export interface Batched<Item, Result> {
  /** Items that it can usefully hold at once: those in work, and the next batches. */
  readonly capacity: number;
  /** Items that its replicas compute at once. */
  readonly concurrency: number;
  /** The present limits of a batch. */
  readonly bounds: BatchBounds;
  /** Items that wait for a replica, or for others to fill their batch. */
  readonly waiting: number;
  /**
   * Computes one item, together with others.
   *
   * @throws the item's error; `OUT_OF_MEMORY` if memory does not suffice for it alone,
   *   `RESULTS_MISCOUNTED` if its batch has a wrong number of results; the signal's reason.
   */
  infer(item: Item, cost: BatchCost, signal: AbortSignal): Promise<Result>;
  /** Computes the waiting items now, also in incomplete batches. */
  flush(): void;
  /** Rejects waiting items, aborts those in work, and waits for their end. The models stay open. */
  close(): Promise<void>;
}

export interface BatchContext {
  clock: Clock;
  logger: Logger;
  /** Starts the span of a batch, if its items are traced; default: there are none. */
  startSpan?(items: readonly unknown[]): Span | undefined;
  /** Called with the number of items of each batch. */
  onBatch?(items: number): void;
}

/**
 * Batches over the replicas of a model. A batch is formed from all waiting items when a replica is
 * free, and starts at once unless `maxBatchDelayMs` says otherwise; the last one is sent however
 * small it is.
 *
 * @param models one for each replica; each computes one batch at a time.
 * @example
 * const model = { run: async (texts: readonly string[]) => texts.map((text) => text.length) };
 * const lengths = batched([model], { maxBatchRows: 32 }, { clock, logger });
 * await lengths.infer("four", { chars: 4 }, signal); // 4
 */
export function batched<Item, Result>(
  models: readonly BatchModel<Item, Result>[],
  given: BatchLimits,
  context: BatchContext,
): Batched<Item, Result> {
  return new Batcher(models, given, context);
}

class Pending<Item, Result> implements Abortable, Waiting<Pending<Item, Result>> {
  readonly item: Item;
  readonly cost: BatchCost;
  readonly signal: AbortSignal;
  /** Number of earlier items. */
  readonly arrival: number;
  readonly arrivedMs: number;
  readonly outcome = Promise.withResolvers<Result>();
  isQueued = false;
  isSettled = false;
  /** Called when its caller no longer waits. */
  onAbort: (pending: Pending<Item, Result>) => void = () => {};

  constructor(
    item: Item,
    cost: BatchCost,
    signal: AbortSignal,
    arrival: number,
    arrivedMs: number,
  ) {
    this.item = item;
    this.cost = cost;
    this.signal = signal;
    this.arrival = arrival;
    this.arrivedMs = arrivedMs;
  }

  abort(reason: unknown): void {
    this.reject(reason);
    this.onAbort(this);
  }

  resolve(result: Result): void {
    this.isSettled = true;
    this.outcome.resolve(result);
  }

  reject(error: unknown): void {
    this.isSettled = true;
    this.outcome.reject(error);
  }
}

class Batcher<Item, Result> implements Batched<Item, Result> {
  readonly #context: BatchContext;
  readonly #replicas: number;
  readonly #delayMs: number;
  readonly #fillsBatches: boolean;
  #arrivals = 0;
  /** The first items up to this number wait for no others. */
  #flushedArrivals = 0;
  readonly #size: BatchSize;
  readonly #idle: BatchModel<Item, Result>[];
  readonly #queue = new WaitingQueue<Pending<Item, Result>>();
  /** Halves of failed batches, to be computed before all others. */
  #halves: Pending<Item, Result>[][] = [];
  readonly #running = new Map<AbortController, Promise<void>>();
  /** Most rows that each model has computed since its last death. */
  readonly #proven = new Map<BatchModel<Item, Result>, number>();
  readonly #watch = new AbortWatch();
  #isScheduled = false;
  #cancelDelay: (() => void) | undefined;
  #closedBy: SluiceError | undefined;

  constructor(
    models: readonly BatchModel<Item, Result>[],
    given: BatchLimits,
    context: BatchContext,
  ) {
    this.#context = context;
    this.#replicas = models.length;
    this.#idle = [...models];
    this.#delayMs = given.maxBatchDelayMs ?? 0;
    this.#fillsBatches = given.fillsBatches ?? false;
    this.#size = new BatchSize(given);
  }

  get bounds(): BatchBounds {
    return this.#size.bounds;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  get capacity(): number {
    const { lookAheadRows = 0 } = this.#size.bounds;
    return this.concurrency + Math.max(this.concurrency, lookAheadRows);
  }

  get concurrency(): number {
    return this.#size.bounds.maxRows * this.#replicas;
  }

  infer(item: Item, cost: BatchCost, signal: AbortSignal): Promise<Result> {
    if (this.#closedBy) return Promise.reject(this.#closedBy);
    const nowMs = this.#context.clock.monotonic();
    const pending = new Pending<Item, Result>(item, cost, signal, this.#arrivals++, nowMs);
    pending.onAbort = this.#forget;
    this.#watch.add(signal, pending);
    if (!pending.isSettled) {
      this.#queue.add(pending);
      this.#schedule();
    }
    return pending.outcome.promise;
  }

  flush(): void {
    this.#flushedArrivals = this.#arrivals;
    this.#schedule();
  }

  async close(): Promise<void> {
    this.#closedBy ??= new SluiceError("ENGINE_DIED", "it was closed");
    this.#cancelDelay?.();
    const waiting = this.#queue.front(Number.POSITIVE_INFINITY);
    for (const pending of [...this.#halves.flat(), ...waiting]) {
      this.#queue.remove(pending);
      this.#reject(pending, this.#closedBy);
    }
    this.#halves = [];
    for (const controller of this.#running.keys()) controller.abort(this.#closedBy);
    await Promise.all(this.#running.values());
  }

  readonly #forget = (pending: Pending<Item, Result>): void => {
    this.#queue.remove(pending);
  };

  // Once for all items of one turn: the batch is formed when the last of them has arrived.
  #schedule(): void {
    if (this.#isScheduled || this.#idle.length === 0) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#startBatches();
    });
  }

  #startBatches(): void {
    while (this.#idle.length > 0) {
      const batch = this.#halves.shift() ?? this.#formBatch();
      if (batch === undefined) return;
      const open = batch.filter(({ isSettled }) => !isSettled);
      if (open.length > 0) this.#start(this.#idle.shift()!, open);
    }
  }

  #formBatch(): Pending<Item, Result>[] | undefined {
    const { bounds } = this;
    if (this.#queue.size === 0) return undefined;
    const isHeldBack = this.#isHeldBack();
    if (isHeldBack && !this.#mayBeFull(bounds)) return undefined;
    // However many wait: a batch is formed from those at the front.
    const seen = this.#queue.front(rowsInSight(bounds));
    const { places, isFull } = nextBatch(seen.map(costOf), bounds);
    if (isHeldBack && !isFull) return undefined;
    const batch = places.map((place) => seen[place]!);
    for (const pending of batch) this.#queue.remove(pending);
    return batch;
  }

  /** Whether the waiting items may fill a batch: their number often suffices for the answer. */
  #mayBeFull({ maxRows, maxChars, maxTokens }: BatchBounds): boolean {
    return this.#queue.size >= maxRows || maxChars !== undefined || maxTokens !== undefined;
  }

  /** Whether an incomplete batch waits for more; if for some time, it is checked again then. */
  #isHeldBack(): boolean {
    if (!this.#fillsBatches && this.#delayMs === 0) return false;
    const { arrival, arrivedMs } = this.#queue.first!;
    if (arrival < this.#flushedArrivals) return false;
    if (this.#fillsBatches) return true;
    const { clock } = this.#context;
    const leftMs = arrivedMs + this.#delayMs - clock.monotonic();
    if (leftMs <= 0) return false;
    this.#cancelDelay?.();
    this.#cancelDelay = clock.schedule(leftMs, () => this.#schedule());
    return true;
  }

  #start(model: BatchModel<Item, Result>, batch: Pending<Item, Result>[]): void {
    const controller = new AbortController();
    let wanted = batch.length;
    for (const pending of batch) {
      pending.onAbort = () => {
        wanted--;
        if (wanted === 0) controller.abort(pending.signal.reason);
      };
    }
    const running = this.#run(model, batch, controller.signal).finally(() => {
      this.#running.delete(controller);
      this.#idle.push(model);
      if (!this.#closedBy) this.#schedule();
    });
    this.#running.set(controller, running);
  }

  async #run(
    model: BatchModel<Item, Result>,
    batch: readonly Pending<Item, Result>[],
    signal: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#context;
    const startedMs = clock.monotonic();
    const items = batch.map(({ item }) => item);
    this.#context.onBatch?.(items.length);
    const span = this.#context.startSpan?.(items);
    try {
      const results = await model.run(items, signal);
      if (!Array.isArray(results) || results.length !== batch.length) {
        throw miscounted(results, batch.length);
      }
      const exceeded = batch.length > 1 && results.find(isOutOfMemory);
      if (exceeded) throw exceeded;
      this.#noteComputed(model, batch.length, (clock.monotonic() - startedMs) / 1000);
      for (const [at, pending] of batch.entries()) this.#settle(pending, results[at]!);
    } catch (thrown) {
      span?.fail(asSluiceError(thrown).code);
      this.#failed(model, batch, thrown);
    } finally {
      span?.end();
    }
  }

  #noteComputed(model: BatchModel<Item, Result>, rows: number, seconds: number): void {
    this.#proven.set(model, Math.max(rows, this.#proven.get(model) ?? 0));
    const before = this.bounds.maxRows;
    this.#size.computed(rows, seconds);
    const { maxRows } = this.bounds;
    if (maxRows === before) return;
    this.#context.logger.log("debug", "batches have another number of rows", { maxRows });
  }

  #failed(
    model: BatchModel<Item, Result>,
    batch: readonly Pending<Item, Result>[],
    thrown: unknown,
  ): void {
    const error = this.#closedBy ?? thrown;
    const isWhole = error instanceof SluiceError && error.scope !== "row";
    const [only, ...others] = batch;
    const isMemory = isOutOfMemory(error);
    if (isWhole) {
      // A process that computed as many rows before has leaked memory; smaller batches do not help
      // then.
      const isLarger = batch.length > (this.#proven.get(model) ?? 0);
      const hasDied = diedOfMemory(error);
      if (hasDied && others.length === 0) this.#size.exceededAlone(only!.cost, true);
      else if (hasDied && isLarger) this.#noteMemory(batch, true);
      this.#proven.delete(model);
      for (const pending of batch) this.#reject(pending, error);
    } else if (others.length === 0) {
      if (isMemory) this.#size.exceededAlone(only!.cost);
      this.#reject(only!, isMemory ? outOfMemory(error) : error);
    } else if (error instanceof SluiceError && error.code === "RESULTS_MISCOUNTED") {
      // In halves the count might happen to fit, but the results would be different ones.
      for (const pending of batch) this.#reject(pending, error);
    } else if (isMemory) {
      this.#noteMemory(batch);
      for (const pending of batch.toReversed()) {
        if (pending.isSettled) continue;
        pending.onAbort = this.#forget;
        this.#queue.addFirst(pending);
      }
    } else {
      const middle = Math.ceil(batch.length / 2);
      this.#halves.unshift(batch.slice(0, middle), batch.slice(middle));
    }
  }

  #noteMemory(batch: readonly Pending<Item, Result>[], hasDied = false): void {
    this.#size.exceededMemory(batch.map(costOf), hasDied);
    const { maxRows, maxChars, maxTokens } = this.bounds;
    const facts = { rows: batch.length, maxRows, maxChars, maxTokens };
    this.#context.logger.log("warn", "a batch did not fit into memory: halved", facts);
  }

  #settle(pending: Pending<Item, Result>, result: Result | Error): void {
    if (result instanceof Error) return this.#reject(pending, result);
    if (pending.isSettled) return;
    this.#watch.remove(pending.signal, pending);
    pending.resolve(result);
  }

  #reject(pending: Pending<Item, Result>, error: unknown): void {
    if (pending.isSettled) return;
    this.#watch.remove(pending.signal, pending);
    pending.reject(error);
  }
}

function costOf({ cost }: { cost: BatchCost }): BatchCost {
  return cost;
}

function outOfMemory(cause: unknown): SluiceError {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new SluiceError("OUT_OF_MEMORY", detail, { cause });
}
