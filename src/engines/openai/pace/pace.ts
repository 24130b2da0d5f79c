import { backoffMs } from "../../../foundation/backoff.ts";
import type { Clock } from "../../../foundation/clock.ts";
import type { Json } from "../../../foundation/json.ts";
import type { Logger } from "../../../foundation/logger.ts";
import type { Random } from "../../../foundation/random.ts";
import type { Admission, AdmissionEnd } from "./admission.ts";
import { sizeOf } from "./durations.ts";
import { LimitFinder } from "./limit-finder.ts";
import { Rates, type Taking } from "./rates.ts";
import { RefusalCeiling, type Sent } from "./refusals.ts";

export type { Admission, AdmissionEnd };

/** The limits of one endpoint, and what is needed to find them. */
export interface PaceOptions {
  clock: Clock;
  random: Random;
  logger: Logger;
  /** The address, for the log. */
  endpoint: string;
  /** Most requests at once. Undefined: found automatically. */
  maxInFlight?: number | undefined;
  /** Most requests a minute. Default: as many as the endpoint's headers allow. */
  requestsPerMinute?: number | undefined;
  /** Tokens a minute, of prompts and answers. Default: as many as the headers allow. */
  tokensPerMinute?: number | undefined;
  /**
   * Reads a page of the server outside its API, such as `/metrics`; undefined if there is none.
   * Absent if the server's load must not be read.
   */
  readPage?(path: string): Promise<string | undefined>;
}

/**
 * The pace of one endpoint: requests at once, requests and tokens a minute. It also keeps the waits
 * that the endpoint asks for (Retry-After).
 */
export interface Pace {
  /** Admitted requests that have not ended. */
  readonly inFlight: number;
  /** Requests that it may hold now, at least 1; changes as it learns. */
  readonly limit: number;
  /**
   * Whether the endpoint answers: then a refusal means one request too many, else that the endpoint
   * must be left alone.
   */
  readonly isAnswering: boolean;
  /** Its findings so far, for the log and the manifest. */
  readonly choices: Readonly<Record<string, Json>>;
  /**
   * Permission to send a request now, or undefined: then try again when `onRoom` calls.
   *
   * @param tokens estimated tokens of prompt and longest answer; corrected at the end.
   */
  tryAdmit(tokens: number): Admission | undefined;
  /**
   * Calls `listener` whenever more may be admitted than before: a request ended, the limit rose, a
   * wait is over. It is called synchronously and may admit.
   */
  onRoom(listener: () => void): void;
  /** Stops timers and reads. */
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

/** While others are in flight, fewer refusals in a row do not mean that nothing is answered. */
const minRefusals = 2;

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
  /** There was an answer since the last refusal. */
  #hasAnswered = false;
  /** Refusals since the last answer, of requests that were sent after the first of them. */
  #refusedInARow = 0;
  #rowFrom: number | undefined;
  /** The end of the waits that refusals since the last answer demand. */
  #demandedUntilMs = 0;
  /** Times in a row without any answer. */
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
    return others > 0 && this.#refusedInARow < Math.max(minRefusals, others);
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
    // Several workers get the same wait, and should not come back together.
    const demandedMs = retryAfterMs * (1 + 0.1 * random.next());
    const demandedBefore = this.#hasAnswered ? 0 : this.#demandedUntilMs;
    this.#demandedUntilMs = Math.max(demandedBefore, nowMs + demandedMs);
    this.#hasAnswered = false;
    if (this.#rowFrom === undefined) this.#rowFrom = this.#sent;
    else if (sent.number >= this.#rowFrom) this.#refusedInARow++;
    if (isAnswering) return;
    const ownMs = this.#silences > 0 ? backoffMs(this.#silences, random) : 0;
    this.#silences++;
    const untilMs = Math.max(this.#demandedUntilMs, nowMs + ownMs);
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
    // Rounding might remove anything smaller.
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

/** The record of a request in flight. */
interface Admitted {
  sent: Sent;
  taking: Taking;
  flow: number;
  limit: number;
  wallMs: number;
}

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

  /** Milliseconds until one more than `inFlight` may be admitted; `limit` is the final number. */
  roomMs(nowMs: number, inFlight: number, limit: number): number {
    const passedMs = nowMs - this.#atMs;
    if (passedMs >= releaseMs) return 0;
    this.#kept = Math.min(this.#kept, inFlight);
    const neededMs = (releaseMs * (inFlight - this.#kept)) / limit;
    return Math.max(0, neededMs - passedMs);
  }
}
