import type { JobSpec } from "../job/schema.ts";

/** What a run may cost; a limit that is left out is none. */
export type Budget = NonNullable<JobSpec["budget"]>;

/** What a run has cost so far. */
export interface Spending {
  tokens: number;
  /** Null without prices. */
  usd: number | null;
  minutes: number;
}
