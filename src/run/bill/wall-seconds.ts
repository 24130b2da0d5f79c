import type { RuleTime } from "../coordinate/coordinator.ts";

/** From one moment to another, in milliseconds since 1970. */
export type TimeSpan = readonly [startMs: number, endMs: number];

/** Seconds that at least one of the spans covers. */
export function coveredSeconds(spans: readonly TimeSpan[]): number {
  let coveredMs = 0;
  let reachedMs = Number.NEGATIVE_INFINITY;
  for (const [startMs, endMs] of [...spans].sort(([a], [b]) => a - b)) {
    coveredMs += Math.max(0, endMs - Math.max(startMs, reachedMs));
    reachedMs = Math.max(reachedMs, endMs);
  }
  return Math.round(coveredMs) / 1000;
}

/** The times of coordinators as spans; the last one leads still, at `nowMs`. */
export function ruleSpans(times: readonly RuleTime[], nowMs: number): TimeSpan[] {
  return times.map(({ startedMs, seconds }, at) => {
    const endMs = startedMs + seconds * 1000;
    return [startedMs, at === times.length - 1 ? Math.max(endMs, nowMs) : endMs];
  });
}
