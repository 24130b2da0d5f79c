import type { Writable } from "node:stream";
import type { Clock } from "../foundation/clock.ts";

/** What is written for a person, and what is known of the place that shows it. */
export interface Terminal {
  readonly stderr: Pick<Writable, "write">;
  /** Whether stderr is a terminal. */
  readonly isTerminal: boolean;
  columns(): number;
  readonly clock: Clock;
  readonly environment: Readonly<Record<string, string | undefined>>;
}
