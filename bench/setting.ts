import { join } from "node:path";

/** The checkout. */
export const root = join(import.meta.dirname, "..");

/** Where loads and runs lie; git ignores it. */
export const dataDirectory = join(root, "bench/.data");

/** What every benchmark is given. */
export interface BenchSetting {
  /** The installed package: `bin/sluice.cjs` and `dist/` lie in it, and no sources beside them. */
  packageDirectory: string;
  /** Measurements of each contender. */
  rounds: number;
  /** Loads ten times the usual. */
  isLarge: boolean;
  /** Loads small enough to try the benchmarks themselves; their figures mean nothing. */
  isSmall: boolean;
}
