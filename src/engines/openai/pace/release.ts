/** Time over which requests are admitted again after an endpoint asked to be left alone. */
export const releaseMs = 2000;

/**
 * The end of a wait that an endpoint asked for. Requests are then admitted one after the other: all
 * at once, they would be refused all at once, if the wait were too short.
 */
export class Release {
  #atMs = Number.NEGATIVE_INFINITY;
  /** Requests in flight when the wait began. */
  #kept = 0;

  /** Admits none until `untilMs`. */
  pause(untilMs: number, inFlight: number): void {
    this.#atMs = Math.max(this.#atMs, untilMs);
    this.#kept = inFlight;
  }

  /** Milliseconds until the wait is over. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#atMs - nowMs);
  }

  /**
   * Milliseconds until one more than `inFlight` may be admitted, with `limit` as the final number.
   */
  roomMs(nowMs: number, inFlight: number, limit: number): number {
    const passedMs = nowMs - this.#atMs;
    if (passedMs >= releaseMs) return 0;
    this.#kept = Math.min(this.#kept, inFlight);
    const neededMs = (releaseMs * (inFlight - this.#kept)) / limit;
    return Math.max(0, neededMs - passedMs);
  }
}
