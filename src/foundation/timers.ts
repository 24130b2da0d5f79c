import type { Clock } from "./clock.ts";

/** Timers of one owner, which can cancel them all at once. */
export class Timers {
  readonly #clock: Clock;
  readonly #open = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls back after `delayMs`; the returned function cancels the timer. */
  schedule(delayMs: number, action: () => void): () => void {
    const cancel = this.#clock.schedule(delayMs, () => {
      this.#open.delete(cancel);
      action();
    });
    this.#open.add(cancel);
    return () => {
      this.#open.delete(cancel);
      cancel();
    };
  }

  /** Cancels all that have not fired. */
  clear(): void {
    for (const cancel of this.#open) cancel();
    this.#open.clear();
  }
}
