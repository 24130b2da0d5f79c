import type { Clock } from "../../foundation/clock.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { limits } from "../../foundation/limits.ts";
import { besideIn, type TraceContext, unsampled } from "../../foundation/telemetry.ts";

/** The span of a call that carries out a run. */
export interface RunTraceContext extends TraceContext {
  /** Whether each attempt at a task has a span, whose id is `attemptSpanId`. */
  hasTasks: boolean;
}

/** The id of the span of an attempt: a worker knows it without being told. */
export function attemptSpanId(attempt: string): string {
  return sha256Hex(attempt).slice(0, 16);
}

/**
 * The spans to which the requests of a worker belong. A run has millions of requests: the first
 * ones of each second are recorded, the others only carry the trace.
 */
export class RequestTraces {
  readonly #run: TraceContext;
  readonly #hasTasks: boolean;
  readonly #clock: Clock;
  #second = -1;
  #recorded = 0;
  #last: { attempt: string; place: TraceContext } | undefined;

  constructor({ hasTasks, ...run }: RunTraceContext, clock: Clock) {
    this.#run = run;
    this.#hasTasks = hasTasks;
    this.#clock = clock;
  }

  /** @param attempt at the task of the request; default: it belongs to the run. */
  next(attempt?: string): TraceContext {
    const place = attempt === undefined ? this.#run : this.#placeOf(attempt);
    const second = Math.floor(this.#clock.monotonic() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#recorded = 0;
    }
    if (this.#recorded >= limits.tracedRequestsPerSecond) return unsampled(place);
    this.#recorded++;
    return place;
  }

  #placeOf(attempt: string): TraceContext {
    if (!this.#hasTasks) return this.#run;
    if (this.#last?.attempt !== attempt) {
      this.#last = { attempt, place: besideIn(this.#run, attemptSpanId(attempt)) };
    }
    return this.#last.place;
  }
}
