import { limits } from "../../foundation/limits.ts";
import { type BatchBounds, type BatchCost, batchCost } from "./next-batch.ts";

/** Rows that are searched for requests of one length. */
export const maxLookAheadRows = 4096;

/** Batches by which a size is judged. */
export const measuredBatches = 3;

/** How much more throughput a doubled batch must give; otherwise half its rows are enough. */
const leastGain = 1.05;

export interface BatchLimits {
  /** Most rows of a batch; `auto` starts with one and grows while rows a second rise. */
  maxBatchRows: number | "auto";
  /** Most rows that the model takes at once, whatever `maxBatchRows` says; default: any number. */
  mostRows?: number | undefined;
  /** Most characters of a batch together; default: any number. */
  maxBatchChars?: number | undefined;
  /** Most tokens of a batch, padded: its longest request times its rows; default: any number. */
  maxBatchTokens?: number | undefined;
  /**
   * How long an incomplete batch waits for more requests; default 0. Requests that arrive while all
   * replicas compute wait in any case, and form the next batch.
   */
  maxBatchDelayMs?: number | undefined;
  /** An incomplete batch waits until it is full, or `flush` is called; default: it does not. */
  fillsBatches?: boolean | undefined;
  /**
   * Batches of requests that are searched for those of one length; default: some if padding counts,
   * which is with `maxBatchTokens`, else 0: requests go in the order of arrival.
   */
  lookAheadBatches?: number | undefined;
}

/** Sizes that later batches must not reach, because such a batch did not fit into memory. */
interface MemoryBound {
  batch: readonly BatchCost[];
  /** The process ended: its rows will be sent again as new ones. */
  hasDied: boolean;
  maxRows?: number;
  maxChars?: number;
  maxTokens?: number;
}

/**
 * The limits of the next batch, which adapt: an automatic number of rows grows while rows a second
 * rise, and sizes that did not fit into memory are not tried again.
 *
 * @example
 * const size = new BatchSize({ maxBatchRows: "auto" });
 * size.computed(1, 0.5); // one row in half a second
 * size.bounds.maxRows;
 */
export class BatchSize {
  readonly #lookAheadBatches: number;
  readonly #isPadded: boolean;
  readonly #maxChars: number | undefined;
  readonly #maxTokens: number | undefined;
  #maxRows: number;
  #memoryBounds: MemoryBound[] = [];
  /** Until something changes. */
  #bounds: BatchBounds | undefined;
  /** Most rows to grow to, because speed ended there. */
  #ceilingRows: number;
  /** Rows a second of the best batch of half the rows. */
  #previousRate = 0;
  #bestRate = 0;
  /** Remaining batches to measure at the present size. */
  #toMeasure: number = measuredBatches;

  constructor(given: BatchLimits) {
    const { maxBatchRows, mostRows = Number.POSITIVE_INFINITY } = given;
    const isAuto = maxBatchRows === "auto";
    this.#ceilingRows = Math.min(isAuto ? limits.maxAutoBatchRows : maxBatchRows, mostRows);
    this.#maxRows = isAuto ? 1 : this.#ceilingRows;
    this.#maxChars = given.maxBatchChars;
    this.#maxTokens = given.maxBatchTokens;
    this.#isPadded = given.maxBatchTokens !== undefined;
    this.#lookAheadBatches =
      given.lookAheadBatches ?? (this.#isPadded ? limits.lookAheadBatches : 0);
  }

  get bounds(): BatchBounds {
    this.#bounds ??= this.#boundsNow();
    return this.#bounds;
  }

  #boundsNow(): BatchBounds {
    const least = (own: number | undefined, key: "maxRows" | "maxChars" | "maxTokens") => {
      const found = [own, ...this.#memoryBounds.map((bound) => bound[key])];
      const known = found.filter((value) => value !== undefined);
      return known.length === 0 ? undefined : Math.min(...known);
    };
    const maxRows = least(this.#maxRows, "maxRows")!;
    const lookAheadRows = this.#lookAheadBatches * maxRows;
    return {
      maxRows,
      maxChars: least(this.#maxChars, "maxChars"),
      maxTokens: least(this.#maxTokens, "maxTokens"),
      lookAheadRows: Math.min(lookAheadRows, maxLookAheadRows),
    };
  }

  /** Records a batch that was computed whole. */
  computed(rows: number, seconds: number): void {
    const isGrowing = this.#maxRows < this.#ceilingRows && this.bounds.maxRows === this.#maxRows;
    if (!isGrowing || rows < this.#maxRows) return;
    this.#bestRate = Math.max(this.#bestRate, rows / Math.max(seconds, 1e-6));
    this.#toMeasure--;
    if (this.#toMeasure > 0) return;
    this.#bounds = undefined;
    if (this.#bestRate < this.#previousRate * leastGain) {
      this.#ceilingRows = Math.max(1, Math.floor(this.#maxRows / 2));
      this.#maxRows = this.#ceilingRows;
      return;
    }
    this.#previousRate = this.#bestRate;
    this.#bestRate = 0;
    this.#toMeasure = measuredBatches;
    this.#maxRows = Math.min(this.#maxRows * 2, this.#ceilingRows);
  }

  /**
   * Records a batch of several rows that did not fit into memory: later ones have half of its
   * limiting size, padded tokens before characters before rows. The same rows never form one batch
   * again.
   */
  exceededMemory(batch: readonly BatchCost[], hasDied = false): void {
    this.#bounds = undefined;
    const { chars, paddedTokens } = batchCost(batch);
    const known = { batch, hasDied };
    if (this.#isPadded && paddedTokens > 0) {
      this.#memoryBounds.push({ ...known, maxTokens: half(paddedTokens) });
    } else if (this.#maxChars !== undefined && chars > 1) {
      this.#memoryBounds.push({ ...known, maxChars: half(chars) });
    } else {
      this.#memoryBounds.push({ ...known, maxRows: half(batch.length) });
    }
  }

  /** Records a row that does not fit alone: its batches say nothing about other rows. */
  exceededAlone(row: BatchCost, hasDied = false): void {
    this.#bounds = undefined;
    this.#memoryBounds = this.#memoryBounds.filter((bound) =>
      hasDied ? !bound.hasDied : !bound.batch.includes(row),
    );
  }
}

function half(exceeded: number): number {
  return Math.max(1, Math.floor(exceeded / 2));
}
