import { backoffMs } from "../../foundation/backoff.ts";
import type { Clock } from "../../foundation/clock.ts";
import { type ServerFault, SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Random } from "../../foundation/random.ts";

/** Why the endpoint as a whole cannot be used now. */
export interface EndpointFailure {
  message: string;
  /** The wait that it demands (Retry-After). */
  retryAfterMs?: number;
  /** What it answered, if it was reached. */
  server?: ServerFault;
}

/** The sender of the endpoint's requests. */
export interface BreakerListener {
  /** One request may be sent as the probe; it must end with `reached`, `fail` or `abandon`. */
  onProbeDue(): void;
  /** The endpoint answers again: all requests may be sent. */
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
  /** All available addresses, for the message that none answers. Default: this one. */
  endpoints?: string;
  /** How long it may fail without a success in between. */
  maxEndpointDownMs: number;
  /**
   * Since when nothing has answered, undefined if something does. Default: only this endpoint
   * counts; one of several may be down for as long as another answers.
   */
  nothingAnswersSinceMs?(): number | undefined;
}

/**
 * Pauses a whole endpoint that asks for a pause (429) or cannot be reached, so that not every row
 * has to find out alone. After a growing wait (full jitter, at least Retry-After), one request is
 * sent as a probe; after any reply of the endpoint, all others follow.
 *
 * A request with an `EndpointFailure` is sent again after the pause, at no cost of a try.
 */
export class EndpointBreaker {
  readonly #options: BreakerOptions;
  #state: "open" | "paused" | "probing" = "open";
  /** Pauses in a row. */
  #failures = 0;
  /** Since when every reply was a failure. */
  #downSinceMs: number | undefined;
  #resumeAtMs = 0;
  #last: EndpointFailure = { message: "" };
  #cancelTimer: (() => void) | undefined;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isPaused(): boolean {
    return this.#state !== "open";
  }

  /** Since when every reply was a failure; undefined if the last one was not. */
  get downSinceMs(): number | undefined {
    return this.#downSinceMs;
  }

  /**
   * The endpoint was reached: it replied, if only with an error, or the request was lost on its
   * way. Only `fail` counts against it.
   */
  reached(isProbe: boolean): void {
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
   * The endpoint failed. Pauses it; a returned error ends the run, or online the request.
   *
   * @param isProbe whether the failed request was the probe.
   */
  fail(failure: EndpointFailure, isProbe: boolean): SluiceError | undefined {
    const nowMs = this.#options.clock.monotonic();
    this.#downSinceMs ??= nowMs;
    this.#last = failure;
    const { retryAfterMs: demandedMs = 0 } = failure;
    if (this.#state !== "open" && !isProbe) {
      this.#prolong(Math.min(nowMs + demandedMs, this.#deadlineMs()));
      return undefined;
    }
    const deadlineMs = this.#deadlineMs();
    if (nowMs >= deadlineMs) return this.#giveUp();
    this.#failures++;
    // The last probe comes before the time is over, whatever wait one refused request was given.
    const waitMs = Math.max(backoffMs(this.#failures, this.#options.random), demandedMs);
    this.#pause(nowMs, Math.min(nowMs + waitMs, deadlineMs));
    return undefined;
  }

  /** It refused a request for a reason that concerns all: no pause, but no answer either. */
  refused(): void {
    this.#downSinceMs ??= this.#options.clock.monotonic();
  }

  /** The probe ended without a reply: another one may be sent. */
  abandon(): void {
    if (this.#state === "probing") this.probe();
  }

  /** Nothing is sent before one request has tested the endpoint. */
  probe(): void {
    this.#cancelTimer?.();
    this.#state = "probing";
    this.#options.onProbeDue();
  }

  /** The listener gets no more calls. */
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
      reason: this.#last.message,
    });
    this.#arm();
  }

  /** The Retry-After of a late reply may exceed the present pause. */
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
    if (nowMs >= this.#resumeAtMs) this.probe();
    else if (nowMs >= this.#deadlineMs()) this.#giveUp();
    else this.#arm();
  }

  #deadlineMs(): number {
    const { nothingAnswersSinceMs = () => this.#downSinceMs, maxEndpointDownMs } = this.#options;
    return (nothingAnswersSinceMs() ?? Number.POSITIVE_INFINITY) + maxEndpointDownMs;
  }

  #giveUp(): SluiceError {
    const { endpoint, endpoints = endpoint, maxEndpointDownMs } = this.#options;
    const { message, ...told } = this.#last;
    const detail = `${endpoints}, ${maxEndpointDownMs / 1000} s; last: ${message}`;
    const error = new SluiceError("ENDPOINT_DOWN", detail, told);
    this.#state = "open";
    this.#options.onDown(error);
    return error;
  }
}
