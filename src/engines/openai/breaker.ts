import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Random } from "../../foundation/random.ts";
import { backoffMs } from "../../foundation/retry.ts";

/** Why the endpoint as a whole cannot be asked now. */
export interface EndpointFailure {
  message: string;
  /** How long it asked to be left alone. */
  retryAfterMs?: number;
}

/** Whoever sends the endpoint's requests. */
export interface BreakerListener {
  /** One request may go ahead as the probe; it must end with `succeed`, `fail` or `abandon`. */
  onProbeDue(): void;
  /** The endpoint answers again: everything may be sent. */
  onOpen(): void;
  /** The endpoint was down for too long: `ENDPOINT_DOWN`. */
  onDown(error: SluiceError): void;
}

interface BreakerOptions extends BreakerListener {
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
 * A request that gets an `EndpointFailure` is asked again after the pause; it has cost its row no
 * attempt.
 */
export class EndpointBreaker {
  readonly #options: BreakerOptions;
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
    this.#state = "open";
    this.#options.onOpen();
  }

  /**
   * The endpoint failed. Pauses it; what is returned, if anything, ends the run.
   *
   * @param isProbe of the request that failed.
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
    const deadlineMs = this.#deadlineMs();
    if (nowMs >= deadlineMs) return this.#giveUp();
    this.#failures++;
    // The last probe comes before the time is up, whatever one refused request was told.
    const waitMs = Math.max(backoffMs(this.#failures, this.#options.random), askedWaitMs);
    this.#pause(nowMs, Math.min(nowMs + waitMs, deadlineMs));
    return undefined;
  }

  /** The probe went away without a reply: another one may go. */
  abandon(): void {
    if (this.#state === "probing") this.#probe();
  }

  /** Nothing more is told to the listener. */
  close(): void {
    this.#cancelTimer?.();
  }

  #pause(nowMs: number, resumeAtMs: number): void {
    const { logger, endpoint } = this.#options;
    this.#state = "paused";
    this.#resumeAtMs = resumeAtMs;
    logger.log("warn", "the endpoint is paused", {
      endpoint,
      waitMs: Math.round(resumeAtMs - nowMs),
      reason: this.#lastFailure,
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
    this.#state = "probing";
    this.#options.onProbeDue();
  }

  #giveUp(): SluiceError {
    const { endpoint, endpoints = endpoint, maxEndpointDownMs } = this.#options;
    const detail = `${endpoints}, ${maxEndpointDownMs / 1000} s; last: ${this.#lastFailure}`;
    const error = new SluiceError("ENDPOINT_DOWN", detail);
    this.#state = "open";
    this.#options.onDown(error);
    return error;
  }
}
