import type { Writable } from "node:stream";
import type { Clock } from "../foundation/clock.ts";

/** An output for a person, and what is known about it. */
export interface Terminal {
  readonly stderr: Pick<Writable, "write">;
  /** Whether stderr is a terminal. */
  readonly isTerminal: boolean;
  columns(): number;
  readonly clock: Clock;
  readonly environment: Readonly<Record<string, string | undefined>>;
}
