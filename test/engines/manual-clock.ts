import type { Clock } from "../../src/foundation/clock.ts";

/** A clock that stands still until it is told to go on. Wall time begins at `startMs`. */
export class ManualClock implements Clock {
  #nowMs = 0;
  readonly #startMs: number;
  readonly #timers = new Set<{ atMs: number; callback: () => void }>();

  constructor(startMs = 0) {
    this.#startMs = startMs;
  }

  now = () => this.#startMs + this.#nowMs;

  monotonic = () => this.#nowMs;

  schedule(delayMs: number, callback: () => void): () => void {
    const timer = { atMs: this.#nowMs + delayMs, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get timers(): number {
    return this.#timers.size;
  }

  /** Goes on by `byMs`, running each timer at its time and what follows from it. */
  async advance(byMs: number): Promise<void> {
    const endMs = this.#nowMs + byMs;
    for (;;) {
      const due = [...this.#timers].filter(({ atMs }) => atMs <= endMs);
      const next = due.sort((a, b) => a.atMs - b.atMs)[0];
      if (!next) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.callback();
      for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    }
    this.#nowMs = endMs;
  }
}
