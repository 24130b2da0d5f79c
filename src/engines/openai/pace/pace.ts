import type { Clock } from "../../../foundation/clock.ts";
import type { Json } from "../../../foundation/json.ts";
import { limits } from "../../../foundation/limits.ts";
import type { Logger } from "../../../foundation/logger.ts";
import type { Random } from "../../../foundation/random.ts";
import { backoffMs } from "../../../foundation/retry.ts";
import type { Admission, AdmissionEnd } from "./admission.ts";
import { sizeOf } from "./durations.ts";
import { LimitFinder } from "./limit-finder.ts";
import { Rates, type Taking } from "./rates.ts";
import { RefusalCeiling, type Sent } from "./refusals.ts";
import { Release } from "./release.ts";

export type { Admission, AdmissionEnd };

/** What one endpoint may be sent, and what it takes to find out. */
export interface PaceOptions {
  clock: Clock;
  random: Random;
  logger: Logger;
  /** The address, for the log. */
  endpoint: string;
  /** Requests at once, at most. Undefined: found while the endpoint answers. */
  maxInFlight?: number | undefined;
  /** Requests that may be sent a minute. Default: as many as the endpoint's headers allow. */
  requestsPerMinute?: number | undefined;
  /** Tokens a minute, of prompts and answers. Default: as many as the headers allow. */
  tokensPerMinute?: number | undefined;
  /**
   * Reads a page of the server outside of its API, such as `/metrics`; undefined where it has none.
   * Absent where the server is not to be asked for its load.
   */
  readPage?(path: string): Promise<string | undefined>;
}

/**
 * How fast one endpoint may be asked: requests at once, requests and tokens a minute. Waits that
 * the endpoint asks for (Retry-After) are kept here too.
 */
export interface Pace {
  /** Requests that were admitted and have not ended. */
  readonly inFlight: number;
  /** Requests that it may hold now, at least 1; rises and falls as it learns. */
  readonly limit: number;
  /**
   * Whether the endpoint answers: then a refusal says that one request was too many, else that the
   * endpoint wants to be left alone.
   */
  readonly isAnswering: boolean;
  /** What it found so far, for the log and the manifest. */
  readonly choices: Readonly<Record<string, Json>>;
  /**
   * Leave to send a request now, or undefined: then try again when `onRoom` calls.
   *
   * @param tokens of the prompt, and those that the answer may have; settled when it ends.
   */
  tryAdmit(tokens: number): Admission | undefined;
  /**
   * Has `listener` called whenever more may be admitted than before: something ended, the limit
   * rose, a wait is over. It is called synchronously and may admit.
   */
  onRoom(listener: () => void): void;
  /** Stops timers and polls. */
  close(): void;
}

/**
 * Opens the pace of one endpoint. Nothing is sent, and no timer runs, before the first admission.
 *
 * @example
 * const pace = openPace({ ...context, endpoint: "http://127.0.0.1:8000/v1" });
 * const admission = pace.tryAdmit(200);
 * admission?.end({ outcome: "answered", promptTokens: 12, completionTokens: 34, headers: {} });
 */
export function openPace(options: PaceOptions): Pace {
  return new EndpointPace(options);
}

/** Refusals in a row from which on nobody is taken to be answered, whoever is under way. */
const leastRow = 2;

class EndpointPace implements Pace {
  readonly #options: PaceOptions;
  readonly #listeners: (() => void)[] = [];
  readonly #ceiling = new RefusalCeiling();
  readonly #rates: Rates;
  readonly #release: Release;
  readonly #finder: LimitFinder | undefined;
  #inFlight = 0;
  #sent = 0;
  /** Requests in flight, summed over time. */
  #flow = 0;
  #flowAtMs = 0;
  #wakeAtMs = Number.POSITIVE_INFINITY;
  #cancelWake: (() => void) | undefined;
  #highest = 0;
  #refused = 0;
  /** Something was answered since the last refusal. */
  #hasAnswered = false;
  /** Refusals since the last answer, of requests that were sent after the first of these came. */
  #refusedInARow = 0;
  #rowFrom: number | undefined;
  /** Until when refusals since the last answer ask for no more. */
  #askedUntilMs = 0;
  /** Times in a row that nothing was answered. */
  #silences = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#rates = new Rates(options, options.clock.monotonic());
    this.#release = new Release();
    if (options.maxInFlight === undefined) {
      this.#finder = new LimitFinder({
        ...options,
        isNeeded: () => this.#inFlight > 0,
        inFlight: () => this.#inFlight,
        onChange: () => this.#tellRoom(),
      });
    }
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get limit(): number {
    const found = this.#finder?.limit ?? this.#options.maxInFlight!;
    return Math.max(1, Math.min(found, this.#ceiling.ceiling));
  }

  get isAnswering(): boolean {
    if (this.#hasAnswered) return true;
    const others = this.#inFlight - 1;
    return others > 0 && this.#refusedInARow < Math.max(leastRow, others);
  }

  get choices(): Readonly<Record<string, Json>> {
    const { maxInFlight } = this.#options;
    return {
      maxInFlight: this.limit,
      by: this.#finder?.by ?? "job",
      highest: this.#highest,
      ...(maxInFlight === undefined ? {} : { allowed: maxInFlight }),
      refused: this.#refused,
    };
  }

  tryAdmit(tokens: number): Admission | undefined {
    const nowMs = this.#options.clock.monotonic();
    const { limit } = this;
    if (this.#inFlight >= limit) return undefined;
    const waitMs = Math.max(
      this.#release.waitMs(nowMs),
      this.#release.roomMs(nowMs, this.#inFlight, limit),
      this.#rates.waitMs(nowMs),
    );
    if (waitMs > 0) {
      this.#wakeIn(waitMs, nowMs);
      return undefined;
    }
    return this.#admit(tokens, limit, nowMs);
  }

  onRoom(listener: () => void): void {
    this.#listeners.push(listener);
  }

  close(): void {
    this.#cancelWake?.();
    this.#finder?.close();
    if (this.#sent === 0) return;
    const { logger, endpoint } = this.#options;
    logger.log("info", "requests at once", { endpoint, ...this.choices });
  }

  #admit(tokens: number, limit: number, nowMs: number): Admission {
    const flow = this.#flowAt(nowMs);
    this.#inFlight++;
    this.#highest = Math.max(this.#highest, this.#inFlight);
    const sent = { number: this.#sent++, inFlight: this.#inFlight, atMs: nowMs };
    const taking = this.#rates.take(tokens, nowMs);
    const wallMs = this.#options.clock.now();
    this.#finder?.admitted();
    return { end: (how) => this.#end(how, { sent, taking, flow, limit, wallMs }) };
  }

  #end(how: AdmissionEnd, admitted: Admitted): void {
    const nowMs = this.#options.clock.monotonic();
    const flow = this.#flowAt(nowMs);
    const { isAnswering } = this;
    const wasAt = this.#inFlight--;
    const { sent, taking } = admitted;
    this.#rates.settle(taking, how, nowMs);
    if (how.outcome === "limited") this.#limited(how, sent, nowMs, isAnswering);
    else if (how.outcome === "failed") this.#finder?.failed();
    else if (how.outcome === "answered") {
      this.#hasAnswered = true;
      this.#rowFrom = undefined;
      this.#refusedInARow = 0;
      this.#silences = 0;
      this.#ceiling.answered(sent, wasAt >= this.#ceiling.ceiling, nowMs);
      const durationMs = nowMs - sent.atMs;
      this.#finder?.cap(this.#ceiling.ceiling);
      this.#finder?.answered({
        durationMs,
        size: sizeOf(how.promptTokens, how.completionTokens),
        meanInFlight: durationMs > 0 ? (flow - admitted.flow) / durationMs : wasAt,
        admittedAtMs: admitted.wallMs,
        endedAtMs: this.#options.clock.now(),
        limitAtAdmission: admitted.limit,
        wasFull: wasAt >= admitted.limit,
      });
    }
    this.#tellRoom();
  }

  #limited(
    { retryAfterMs = 0 }: Ended<"limited">,
    sent: Sent,
    nowMs: number,
    isAnswering: boolean,
  ): void {
    const { random } = this.#options;
    this.#refused++;
    this.#ceiling.refused(sent, this.#sent, nowMs);
    this.#finder?.cap(this.#ceiling.ceiling);
    // Several workers are told the same, and should not come back as one.
    const askedMs = Math.min(retryAfterMs, limits.maxEndpointPauseMs) * (1 + 0.1 * random.next());
    const askedBefore = this.#hasAnswered ? 0 : this.#askedUntilMs;
    this.#askedUntilMs = Math.max(askedBefore, nowMs + askedMs);
    this.#hasAnswered = false;
    if (this.#rowFrom === undefined) this.#rowFrom = this.#sent;
    else if (sent.number >= this.#rowFrom) this.#refusedInARow++;
    if (isAnswering) return;
    const ownMs = this.#silences > 0 ? backoffMs(this.#silences, random) : 0;
    this.#silences++;
    const untilMs = Math.max(this.#askedUntilMs, nowMs + ownMs);
    if (untilMs > nowMs) this.#release.pause(untilMs, this.#inFlight);
  }

  #flowAt(nowMs: number): number {
    this.#flow += this.#inFlight * (nowMs - this.#flowAtMs);
    this.#flowAtMs = nowMs;
    return this.#flow;
  }

  #tellRoom(): void {
    for (const listener of this.#listeners) listener();
  }

  #wakeIn(neededMs: number, nowMs: number): void {
    // Rounding might leave nothing of less than that.
    const waitMs = Math.max(1, Math.ceil(neededMs));
    const atMs = nowMs + waitMs;
    if (this.#cancelWake !== undefined && this.#wakeAtMs <= atMs) return;
    this.#cancelWake?.();
    this.#wakeAtMs = atMs;
    this.#cancelWake = this.#options.clock.schedule(waitMs, () => {
      this.#cancelWake = undefined;
      this.#tellRoom();
    });
  }
}

type Ended<Outcome> = AdmissionEnd & { outcome: Outcome };

/** What is kept of a request while it is under way. */
interface Admitted {
  sent: Sent;
  taking: Taking;
  flow: number;
  limit: number;
  wallMs: number;
}
