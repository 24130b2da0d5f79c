/**
 * Where time comes from. Passed in everywhere below the CLI, so that a whole run can be simulated
 * on a virtual clock.
 */
export interface Clock {
  /** Wall time in milliseconds since 1970. Never compared across machines. */
  now(): number;
  /** Milliseconds that only grow, from an arbitrary start. For durations. */
  monotonic(): number;
  /**
   * Calls back after `delayMs`, or as soon as possible if that is below zero. The returned function
   * cancels the timer.
   */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** Node fires a longer timer (some 25 days) at once, and warns about a negative one. */
const maxDelayMs = 2 ** 31 - 1;

/** The clock of this machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(0, delayMs), maxDelayMs));
    return () => clearTimeout(timer);
  },
};

/** Calls back once this process has taken note of what has happened outside of it until now. */
export function afterEvents(callback: () => void): void {
  setImmediate(callback);
}

/**
 * Waits `delayMs` on `clock`.
 *
 * @throws the signal's reason, at once when it is aborted before or during the wait.
 * @example
 * await sleep(systemClock, 250, signal);
 */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.schedule(delayMs, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** The result of a promise, or the signal's reason if that comes first. */
export function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
