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

const defaultBackoff: BackoffLimits = Object.freeze({
  baseMs: limits.backoffBaseMs,
  maxMs: limits.backoffMaxMs,
});

/**
 * Milliseconds to wait after so many failed tries: a random time between 0 and `baseMs ·
 * 2^(tries−1)`, at most `maxMs` ("full jitter"), but never less than `demandedMs`.
 *
 * Source: Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015.
 */
export function backoffMs(
  tries: number,
  random: Random,
  backoff: BackoffLimits = defaultBackoff,
  demandedMs = 0,
): number {
  const ceiling = Math.min(backoff.maxMs, backoff.baseMs * 2 ** Math.min(tries - 1, 30));
  return Math.max(random.next() * ceiling, demandedMs);
}

/**
 * The wait that a server demands: `retry-after-ms`, else `Retry-After` in seconds or as an HTTP
 * date. At most `maxMs`; undefined if there is none.
 */
export function demandedWaitMs(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  nowMs: number,
  maxMs: number = limits.maxRetryAfterMs,
): number | undefined {
  const number = /^\s*\d+(\.\d+)?\s*$/;
  const inMs = String(headers["retry-after-ms"]);
  if (number.test(inMs)) return Math.min(Number(inMs), maxMs);
  const after = String(headers["retry-after"]);
  const waitMs = number.test(after) ? Number(after) * 1000 : Date.parse(after) - nowMs;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(0, waitMs), maxMs);
}

interface BackoffOptions {
  clock: Clock;
  random: Random;
  maxTries: number;
  /** False for a failure that another try would meet again. */
  isTransient: (error: unknown) => boolean;
  backoff?: BackoffLimits;
  signal?: AbortSignal | undefined;
}

/**
 * Runs `action` until it succeeds, fails for good, or has been tried `maxTries` times. Between two
 * tries it waits, at least for the `retryAfterMs` of the error.
 *
 * @throws whatever the last try threw.
 */
export async function withBackoff<T>(
  action: (number: number) => Promise<T>,
  { clock, random, maxTries, isTransient, backoff, signal }: BackoffOptions,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await action(tries);
    } catch (error) {
      if (tries >= maxTries || !isTransient(error)) throw error;
      const { retryAfterMs } = error as { retryAfterMs?: number };
      await sleep(clock, backoffMs(tries, random, backoff, retryAfterMs), signal);
    }
  }
}
