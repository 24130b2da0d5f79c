import type { IncomingHttpHeaders } from "node:http";

/** An endpoint's report of one of its limits. */
export interface RateState {
  /** The most that can be saved up. */
  limit: number;
  /** The remaining part. */
  remaining: number;
  /** Milliseconds until all of it is there again. */
  resetMs: number;
}

export interface RateStates {
  requests?: RateState | undefined;
  tokens?: RateState | undefined;
}

/**
 * Reads the rate limits in a reply's headers:
 * `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` of OpenAI and compatible servers, else
 * the fields of the IETF draft "RateLimit header fields for HTTP", in its older form
 * (`ratelimit-limit`, …) or its newer one (`RateLimit: "default";r=50;t=30` with `RateLimit-Policy:
 * "default";q=100;w=60`). Incomplete or unreadable headers are ignored.
 */
export function readRateHeaders(headers: IncomingHttpHeaders): RateStates {
  const of = (unit: string) =>
    stateOf(
      headers[`x-ratelimit-limit-${unit}`],
      headers[`x-ratelimit-remaining-${unit}`],
      headers[`x-ratelimit-reset-${unit}`],
    );
  return { requests: of("requests") ?? draftState(headers), tokens: of("tokens") };
}

function draftState(headers: IncomingHttpHeaders): RateState | undefined {
  const separate = stateOf(
    headers["ratelimit-limit"],
    headers["ratelimit-remaining"],
    headers["ratelimit-reset"],
  );
  if (separate) return separate;
  const [state, policy] = [headers.ratelimit, headers["ratelimit-policy"]];
  if (typeof state !== "string" || typeof policy !== "string") return undefined;
  return stateOf(parameter(policy, "q"), parameter(state, "r"), parameter(state, "t"));
}

/** A parameter of the first item of a structured field. */
function parameter(field: string, name: string): string | undefined {
  const [first = ""] = field.split(",");
  return new RegExp(`;\\s*${name}=(\\d+)\\s*(?:;|$)`).exec(first)?.[1];
}

const longestResetMs = 7 * 86_400_000;

type Header = string | string[] | undefined;

function stateOf(limit: Header, remaining: Header, reset: Header): RateState | undefined {
  const state = {
    limit: countOf(limit),
    remaining: countOf(remaining),
    resetMs: typeof reset === "string" ? durationMs(reset) : undefined,
  };
  if (state.limit === undefined || state.remaining === undefined) return undefined;
  if (state.limit < 1 || state.resetMs === undefined) return undefined;
  // Some send the time of day instead of the remaining time.
  if (state.resetMs > longestResetMs) return undefined;
  return state as RateState;
}

function countOf(header: Header): number | undefined {
  return typeof header === "string" && /^\d{1,15}$/.test(header.trim())
    ? Number(header)
    : undefined;
}

const unitMs: Readonly<Record<string, number>> = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
};

/** `6m0s`, `1h2m3.5s`, `20ms`, or seconds without a unit. */
export function durationMs(text: string): number | undefined {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed) * 1000;
  if (!/^(\d+(\.\d+)?(d|h|ms|m|s))+$/.test(trimmed)) return undefined;
  let sumMs = 0;
  for (const [, amount, unit] of trimmed.matchAll(/(\d+(?:\.\d+)?)(d|h|ms|m|s)/g)) {
    sumMs += Number(amount) * unitMs[unit!]!;
  }
  return sumMs;
}
