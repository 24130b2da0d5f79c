import { limits } from "../../foundation/limits.ts";

/** When requests are asked a second time. */
export interface HedgeOptions {
  /** A request that takes longer than this share of those before it, 0 to 1. */
  afterQuantile: number;
  /** Most requests that are asked twice, as a share of all. */
  maxShare: number;
}

/** Latencies between two looks at what the slowest are. */
const learnedTogether = 32;

/**
 * Tells which requests are the slowest, by the latencies of those before them, and keeps the share
 * of those that are asked twice.
 *
 * Source: Dean, Barroso, "The tail at scale", Communications of the ACM 2013 (hedged requests).
 */
export class Hedging {
  readonly #options: HedgeOptions;
  /** The last ones, as a ring. */
  readonly #latenciesMs: number[] = [];
  #noted = 0;
  #asked = 0;
  #hedged = 0;
  #delayMs: number | undefined;
  /** Of requests that began before anything was known. */
  readonly #early = new Set<(delayMs: number) => void>();

  constructor(options: HedgeOptions) {
    this.#options = options;
  }

  /** Counts a request; says when it counts as slow, undefined while that is not known. */
  begin(): number | undefined {
    this.#asked++;
    return this.#delayMs;
  }

  /**
   * Has `listener` called as soon as it is known when a request counts as slow.
   *
   * @returns what takes that back.
   */
  onceKnown(listener: (delayMs: number) => void): () => void {
    this.#early.add(listener);
    return () => this.#early.delete(listener);
  }

  /** Notes what a request took in all. */
  note(latencyMs: number): void {
    this.#latenciesMs[this.#noted++ % limits.keptLatencies] = latencyMs;
    if (this.#noted < limits.leastLatencies) return;
    if (this.#delayMs !== undefined && this.#noted % learnedTogether !== 0) return;
    const sorted = this.#latenciesMs.toSorted((a, b) => a - b);
    this.#delayMs = sorted[Math.floor(sorted.length * this.#options.afterQuantile)]!;
    for (const listener of this.#early) listener(this.#delayMs);
    this.#early.clear();
  }

  /** Whether one more may be asked twice. */
  get hasShare(): boolean {
    return this.#hedged + 1 <= this.#options.maxShare * this.#asked;
  }

  /** Counts a request that is asked twice. */
  hedged(): void {
    this.#hedged++;
  }
}
