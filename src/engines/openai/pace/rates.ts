import type { AdmissionEnd } from "./admission.ts";
import { type RateState, readRateHeaders } from "./rate-headers.ts";
import { RateLimit } from "./rate-limit.ts";

/** The expected cost of one request, corrected at its end. */
export interface Taking {
  tokens: number;
  /** The total taken when it was sent. */
  requestsSoFar: number;
  tokensSoFar: number;
}

type Unit = "requests" | "tokens";

/** The limits on requests and tokens a minute, from the job or from the endpoint's headers. */
export class Rates {
  readonly #limits: Partial<Record<Unit, RateLimit>> = {};
  readonly #taken = { requests: 0, tokens: 0 };

  constructor(
    options: { requestsPerMinute?: number | undefined; tokensPerMinute?: number | undefined },
    nowMs: number,
  ) {
    const { requestsPerMinute, tokensPerMinute } = options;
    if (requestsPerMinute !== undefined) {
      this.#limits.requests = RateLimit.perMinute(requestsPerMinute, nowMs);
    }
    if (tokensPerMinute !== undefined) {
      this.#limits.tokens = RateLimit.perMinute(tokensPerMinute, nowMs);
    }
  }

  /** Milliseconds until one more may be sent. */
  waitMs(nowMs: number): number {
    const { requests, tokens } = this.#limits;
    return Math.max(requests?.waitMs(nowMs) ?? 0, tokens?.waitMs(nowMs) ?? 0);
  }

  take(tokens: number, nowMs: number): Taking {
    this.#limits.requests?.take(1, nowMs);
    this.#limits.tokens?.take(tokens, nowMs);
    this.#taken.requests++;
    this.#taken.tokens += tokens;
    const { requests: requestsSoFar, tokens: tokensSoFar } = this.#taken;
    return { tokens, requestsSoFar, tokensSoFar };
  }

  /** Replaces a request's expected cost by the real one, and reads the headers. */
  settle(taking: Taking, how: AdmissionEnd, nowMs: number): void {
    const { tokens, requestsSoFar, tokensSoFar } = taking;
    if (how.outcome === "answered" || how.outcome === "limited") {
      const states = readRateHeaders(how.headers);
      this.#learn("requests", states.requests, this.#taken.requests - requestsSoFar, nowMs);
      this.#learn("tokens", states.tokens, this.#taken.tokens - tokensSoFar, nowMs);
    }
    const cost = costOf(how);
    // Requests that were cancelled, or failed on the way, may have been counted there.
    if (cost === undefined) return;
    this.#limits.tokens?.refund(tokens - cost);
  }

  #learn(unit: Unit, state: RateState | undefined, sentSince: number, nowMs: number): void {
    if (state === undefined) return;
    const known = this.#limits[unit];
    if (known) known.learn(state, sentSince, nowMs);
    else this.#limits[unit] = RateLimit.fromHeaders(state, sentSince, nowMs);
  }
}

/** Tokens of a request; undefined if unknown. */
function costOf(how: AdmissionEnd): number | undefined {
  if (how.outcome === "limited") return 0;
  if (how.outcome !== "answered") return undefined;
  const { promptTokens, completionTokens } = how;
  return promptTokens + completionTokens;
}
