import { type Clock, sleep } from "./clock.ts";
import { limits } from "./limits.ts";
import type { Random } from "./random.ts";

/** How long to wait between tries. */
export interface BackoffLimits {
  /** Upper bound of the first wait. */
  baseMs: number;
  /** Upper bound of every wait. */
  maxMs: number;
}

export const defaultBackoff: BackoffLimits = Object.freeze({
  baseMs: limits.retryBaseMs,
  maxMs: limits.retryMaxMs,
});

/**
 * Milliseconds to wait after failed try `attempt` (from 1): a random time between 0 and `baseMs ·
 * 2^(attempt−1)`, at most `maxMs` ("full jitter"), but never less than `retryAfterMs`.
 *
 * Source: Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015.
 */
export function backoffMs(
  attempt: number,
  random: Random,
  backoff: BackoffLimits = defaultBackoff,
  retryAfterMs = 0,
): number {
  const ceiling = Math.min(backoff.maxMs, backoff.baseMs * 2 ** Math.min(attempt - 1, 30));
  return Math.max(random.next() * ceiling, Math.min(retryAfterMs, limits.maxRetryAfterMs));
}

/** Reads a Retry-After header: seconds, or an HTTP date. Undefined when it is neither. */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
}

interface RetryOptions {
  clock: Clock;
  random: Random;
  maxAttempts: number;
  /** Which failures are worth another try. */
  isRetryable: (error: unknown) => boolean;
  backoff?: BackoffLimits;
  signal?: AbortSignal;
}

/**
 * Runs `action` until it succeeds, fails for good, or has been tried `maxAttempts` times.
 *
 * @throws whatever the last try threw.
 */
export async function retry<T>(
  action: (attempt: number) => Promise<T>,
  options: RetryOptions,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await action(attempt);
    } catch (error) {
      if (attempt >= options.maxAttempts || !options.isRetryable(error)) throw error;
      const delayMs = backoffMs(attempt, options.random, options.backoff);
      await sleep(options.clock, delayMs, options.signal);
    }
  }
}
