import { limits } from "../../../foundation/limits.ts";
import type { RateState } from "./rate-headers.ts";

/** Time over which a configured limit counts, and the part of it that may be used at once. */
const minuteMs = 60_000;
const burstMs = 1000;

/**
 * A limit on requests or tokens over time, as a bucket that is filled at a steady rate. It may run
 * into debt by one request, so that one larger than the whole bucket can be sent.
 *
 * From configuration, it admits no more than the limit in any minute: a second's share at once, and
 * the rest of the minute at its rate. From headers, it is the endpoint's own limit.
 */
export class RateLimit {
  #capacity: number;
  #level: number;
  #perMs: number;
  #filledAtMs: number;
  #takenAtMs: number;
  readonly #isConfigured: boolean;

  private constructor(capacity: number, perMs: number, nowMs: number, isConfigured: boolean) {
    this.#capacity = capacity;
    this.#level = capacity;
    this.#perMs = perMs;
    this.#filledAtMs = nowMs;
    this.#takenAtMs = nowMs;
    this.#isConfigured = isConfigured;
  }

  static perMinute(limit: number, nowMs: number): RateLimit {
    const capacity = Math.max(1, (limit * burstMs) / minuteMs);
    const perMs = Math.max(limit - capacity, limit / 2) / minuteMs;
    return new RateLimit(capacity, perMs, nowMs, true);
  }

  static fromHeaders(state: RateState, sentSince: number, nowMs: number): RateLimit {
    const limit = new RateLimit(state.limit, state.limit / minuteMs, nowMs, false);
    limit.learn(state, sentSince, nowMs);
    return limit;
  }

  /** Milliseconds until something may be taken; 0 = now. */
  waitMs(nowMs: number): number {
    this.#fill(nowMs);
    const least = Math.min(1, this.#capacity);
    if (this.#level >= least) return 0;
    const waitMs = Math.ceil((least - this.#level) / this.#perMs);
    if (this.#isConfigured) return waitMs;
    // One reply must not stop a run for days.
    return Math.max(0, Math.min(waitMs, this.#takenAtMs + limits.maxRetryAfterMs - nowMs));
  }

  take(amount: number, nowMs: number): void {
    this.#fill(nowMs);
    this.#takenAtMs = nowMs;
    this.#level -= amount;
  }

  /** Returns the unused part of a request's expected cost; less than 0: it cost more. */
  refund(amount: number): void {
    this.#level += amount;
  }

  /**
   * Takes over a reply's report. A server counts a request when it arrives, and reports when it has
   * answered: requests sent in between are missing.
   *
   * @param sentSince taken after the answered request.
   */
  learn(state: RateState, sentSince: number, nowMs: number): void {
    if (this.#isConfigured) return;
    this.#fill(nowMs);
    this.#capacity = state.limit;
    const missing = state.limit - state.remaining;
    if (missing > 0 && state.resetMs > 0) this.#perMs = missing / state.resetMs;
    this.#level = Math.min(this.#level, state.remaining - sentSince);
  }

  #fill(nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - this.#filledAtMs);
    this.#filledAtMs = nowMs;
    this.#level = Math.min(this.#capacity, this.#level + elapsedMs * this.#perMs);
  }
}
