import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Random } from "../../foundation/random.ts";
import { backoffMs } from "../../foundation/retry.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";

/** Why the endpoint as a whole cannot be asked now. */
export interface EndpointFailure {
  message: string;
  /** How long it asked to be left alone. */
  retryAfterMs?: number;
}

interface BreakerOptions {
  clock: Clock;
  random: Random;
  logger: Logger;
  /** The address, for messages. */
  endpoint: string;
  /** All addresses that may be asked, for the message that none answers. Default: the one. */
  endpoints?: string;
  /** How long it may fail without a success between. */
  maxEndpointDownMs: number;
  /**
   * Since when nothing has answered, undefined where something does. Default: goes by this
   * endpoint alone; one of several may stay away for as long as another answers.
   */
  nothingAnswersSinceMs?(): number | undefined;
}

/**
 * Pauses a whole endpoint when it asks for it (429) or cannot be reached, instead of letting every
 * row find out for itself. After a wait that grows (full jitter, and not less than Retry-After, as
 * far as `limits.maxEndpointPauseMs`) one request goes ahead as a probe; any reply of the endpoint
 * to it lets all others go.
 *
 * A request that gets an `EndpointFailure` is to be asked again after `pass`; it has cost its row
 * no attempt.
 */
export class EndpointBreaker {
  readonly #options: BreakerOptions;
  readonly #watch = new AbortWatch();
  readonly #waiting = new Set<Waiter>();
  #state: "open" | "paused" | "probing" = "open";
  /** Pauses in a row. */
  #failures = 0;
  /** Since when every reply was a failure. */
  #downSinceMs: number | undefined;
  #resumeAtMs = 0;
  #lastFailure = "";
  #cancelTimer: (() => void) | undefined;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isPaused(): boolean {
    return this.#state !== "open";
  }

  /** Since when every reply was a failure; undefined where the last one was none. */
  get downSinceMs(): number | undefined {
    return this.#downSinceMs;
  }

  /**
   * Waits until the endpoint may be asked. True when the caller is the probe: it must then call
   * `succeed`, `fail` or `abandon` with what came of it.
   *
   * @throws SluiceError `ENDPOINT_DOWN` when it was down for too long; the signal's reason.
   */
  pass(signal: AbortSignal): Promise<boolean> {
    if (this.#state === "open") return Promise.resolve(false);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const waiter: Waiter = {
      signal,
      resolve,
      reject,
      abort: (reason) => {
        this.#waiting.delete(waiter);
        reject(reason);
      },
    };
    this.#waiting.add(waiter);
    this.#watch.add(signal, waiter);
    return promise;
  }

  /** The endpoint replied, be it with an error of that one request. */
  succeed(isProbe: boolean): void {
    if (this.#downSinceMs === undefined && !isProbe) return;
    this.#downSinceMs = undefined;
    if (this.#state === "open") this.#failures = 0;
    if (!isProbe) return;
    this.#failures = 0;
    this.#options.logger.log("info", "the endpoint answers again", {
      endpoint: this.#options.endpoint,
    });
    this.#open();
  }

  /**
   * The endpoint failed. Pauses it; what is returned, if anything, ends the run.
   *
   * @param isProbe what `pass` said of the request that failed.
   */
  fail(failure: EndpointFailure, isProbe: boolean): SluiceError | undefined {
    const nowMs = this.#options.clock.monotonic();
    this.#downSinceMs ??= nowMs;
    this.#lastFailure = failure.message;
    const askedWaitMs = Math.min(failure.retryAfterMs ?? 0, limits.maxEndpointPauseMs);
    if (this.#state !== "open" && !isProbe) {
      this.#prolong(Math.min(nowMs + askedWaitMs, this.#deadlineMs()));
      return undefined;
    }
    const remainingMs = this.#deadlineMs() - nowMs;
    if (remainingMs <= 0) return this.#giveUp();
    this.#failures++;
    // The last probe comes before the time is up, whatever one refused request was told.
    const waitMs = Math.max(backoffMs(this.#failures, this.#options.random), askedWaitMs);
    this.#pause(Math.min(waitMs, remainingMs), failure.message);
    return undefined;
  }

  /** The probe went away without a reply: the next one in line takes its place. */
  abandon(): void {
    if (this.#state === "probing") this.#probe();
  }

  /** Rejects all that wait. */
  close(reason: unknown): void {
    this.#cancelTimer?.();
    for (const waiter of this.#takeAll()) waiter.reject(reason);
  }

  #pause(waitMs: number, reason: string): void {
    const { clock, logger, endpoint } = this.#options;
    this.#state = "paused";
    this.#resumeAtMs = clock.monotonic() + waitMs;
    logger.log("warn", "the endpoint is paused", {
      endpoint,
      waitMs: Math.round(waitMs),
      reason,
    });
    this.#arm();
  }

  /** A straggler's Retry-After may ask for more than the pause that is under way. */
  #prolong(resumeAtMs: number): void {
    if (this.#state === "paused" && resumeAtMs > this.#resumeAtMs) this.#resumeAtMs = resumeAtMs;
  }

  #arm(): void {
    const { clock } = this.#options;
    const waitMs = Math.min(this.#resumeAtMs, this.#deadlineMs()) - clock.monotonic();
    this.#cancelTimer = clock.schedule(Math.max(0, waitMs), () => this.#wake());
  }

  #wake(): void {
    const nowMs = this.#options.clock.monotonic();
    if (nowMs >= this.#resumeAtMs) this.#probe();
    else if (nowMs >= this.#deadlineMs()) this.#giveUp();
    else this.#arm();
  }

  #deadlineMs(): number {
    const { nothingAnswersSinceMs = () => this.#downSinceMs, maxEndpointDownMs } = this.#options;
    return (nothingAnswersSinceMs() ?? Number.POSITIVE_INFINITY) + maxEndpointDownMs;
  }

  #probe(): void {
    for (const waiter of this.#waiting) {
      this.#state = "probing";
      this.#waiting.delete(waiter);
      this.#watch.remove(waiter.signal, waiter);
      waiter.resolve(true);
      return;
    }
    this.#state = "open";
  }

  #open(): void {
    this.#state = "open";
    for (const waiter of this.#takeAll()) waiter.resolve(false);
  }

  #giveUp(): SluiceError {
    const { endpoint, endpoints = endpoint, maxEndpointDownMs } = this.#options;
    const detail = `${endpoints}, ${maxEndpointDownMs / 1000} s; last: ${this.#lastFailure}`;
    const error = new SluiceError("ENDPOINT_DOWN", detail);
    this.#state = "open";
    for (const waiter of this.#takeAll()) waiter.reject(error);
    return error;
  }

  #takeAll(): Waiter[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    for (const waiter of all) this.#watch.remove(waiter.signal, waiter);
    return all;
  }
}

interface Waiter extends Abortable {
  signal: AbortSignal;
  resolve: (isProbe: boolean) => void;
  reject: (reason: unknown) => void;
}
