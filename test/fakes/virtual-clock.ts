import type { Clock } from "../../src/foundation/clock.ts";

export interface VirtualClockOptions {
  /** What `now()` says at the start, in milliseconds since 1970. Default: the start of 2026. */
  startMs?: number;
  /**
   * True while something outside of the simulation is under way, such as the read of a real file:
   * time stands still until it is done. Default: never.
   */
  isBusy?(): boolean;
}

/** Time that passes only when nothing else can happen. */
export interface VirtualClock extends Clock {
  /**
   * Lets time pass until `work` settles. Each time the event loop is idle, the next timer fires.
   *
   * @param maxMs virtual milliseconds that it may take; default 24 hours.
   * @returns what `work` resolves to.
   * @throws Error when `work` waits for something that no timer will bring, or for too long.
   */
  run<T>(work: Promise<T>, maxMs?: number): Promise<T>;
}

/**
 * A clock for simulations: hours pass in milliseconds, and two runs that schedule the same things
 * see the same times.
 *
 * @example
 * const clock = virtualClock();
 * await clock.run(sleep(clock, 60_000)); // at once
 * clock.monotonic(); // 60000
 */
export function virtualClock(options: VirtualClockOptions = {}): VirtualClock {
  return new EventClock(options);
}

interface Timer {
  dueMs: number;
  callback: () => void;
}

const dayMs = 86_400_000;

/** Turns of the event loop without a timer after which nothing will come any more. */
const maxIdleTurns = 100;

class EventClock implements VirtualClock {
  readonly #startMs: number;
  readonly #isBusy: () => boolean;
  /** Soonest last; of equal times the older one fires first. */
  readonly #timers: Timer[] = [];
  #elapsedMs = 0;

  constructor({ startMs = Date.UTC(2026, 0, 1), isBusy = () => false }: VirtualClockOptions) {
    this.#startMs = startMs;
    this.#isBusy = isBusy;
  }

  now(): number {
    return this.#startMs + Math.floor(this.#elapsedMs);
  }

  monotonic(): number {
    return this.#elapsedMs;
  }

  schedule(delayMs: number, callback: () => void): () => void {
    const timer = { dueMs: this.#elapsedMs + Math.max(0, delayMs), callback };
    let at = this.#timers.length;
    while (at > 0 && this.#timers[at - 1]!.dueMs <= timer.dueMs) at--;
    this.#timers.splice(at, 0, timer);
    return () => {
      const place = this.#timers.indexOf(timer);
      if (place >= 0) this.#timers.splice(place, 1);
    };
  }

  run<T>(work: Promise<T>, maxMs: number = dayMs): Promise<T> {
    const endMs = this.#elapsedMs + maxMs;
    return new Promise<T>((resolve, reject) => {
      let isSettled = false;
      const settle = () => {
        isSettled = true;
      };
      work.then(settle, settle);
      work.then(resolve, reject);
      let idleTurns = 0;
      const turn = () => {
        if (isSettled) return;
        if (this.#isBusy()) idleTurns = 0;
        else if (this.#fireNext()) idleTurns = 0;
        else idleTurns++;
        const problem = this.#problem(idleTurns, endMs);
        if (problem) reject(new Error(problem));
        else setImmediate(turn);
      };
      setImmediate(turn);
    });
  }

  #problem(idleTurns: number, endMs: number): string | undefined {
    if (idleTurns > maxIdleTurns) return "deadlock: it waits, and no timer is scheduled";
    if (this.#elapsedMs > endMs) return "it did not end in the time it was given";
    return undefined;
  }

  #fireNext(): boolean {
    const timer = this.#timers.pop();
    if (!timer) return false;
    this.#elapsedMs = Math.max(this.#elapsedMs, timer.dueMs);
    timer.callback();
    return true;
  }
}
