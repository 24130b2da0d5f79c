import { join } from "node:path";
import { absoluteLocation } from "../data/storage/open.ts";
import type { Clock } from "../foundation/clock.ts";
import type { Random } from "../foundation/random.ts";
import type { Telemetry } from "../foundation/telemetry.ts";

/** What Sluice uses of its process, in a command or in your own program. */
export interface Surroundings {
  readonly clock: Clock;
  readonly random: Random;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The folder where relative paths start. */
  readonly workingDirectory: string;
  /** Where spans go; undefined where nobody asked for them. */
  readonly telemetry?: Telemetry | undefined;
  readonly process: {
    readonly pid: number;
    /** The Node that runs this, for starting workers. */
    readonly executable: string;
    readonly platform: string;
    /** The user's home directory. */
    readonly userDirectory: string;
    /** Ends this process at once without cleaning up, as `kill -9` would. */
    kill(): void;
  };
}

/** A place as a program names it: `~/` is the user's home, as in jobs. */
export function placeIn({ workingDirectory, process }: Surroundings, place: string): string {
  if (place.startsWith("~/")) return join(process.userDirectory, place.slice(2));
  return absoluteLocation(workingDirectory, place);
}
