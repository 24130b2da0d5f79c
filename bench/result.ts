/** One figure of a benchmark, beside what the same machine does without Sluice in the same run. */
export interface BenchResult {
  name: string;
  /** What Sluice reached, in `unit`. */
  value: number;
  unit: string;
  /** What the baseline reached, in the same unit. */
  baseline: number;
  /** How Sluice does against the baseline; above 1 is better. */
  ratio: number;
  /** The ratio that is aimed at. */
  goal?: number;
  /** The most that `value` may be, if the goal is not a ratio. */
  atMost?: number;
}

/** Whether the goal is met; undefined where there is none. */
export function isMet({ value, ratio, goal, atMost }: BenchResult): boolean | undefined {
  if (goal !== undefined) return ratio >= goal;
  return atMost === undefined ? undefined : value <= atMost;
}
