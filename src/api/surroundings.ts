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
