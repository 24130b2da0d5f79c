import type { Clock } from "../foundation/clock.ts";
import type { Random } from "../foundation/random.ts";

/** What Sluice uses of the process that it runs in, be it a command or a program of yours. */
export interface Surroundings {
  readonly clock: Clock;
  readonly random: Random;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** What relative paths are relative to. */
  readonly workingDirectory: string;
  readonly process: {
    readonly pid: number;
    /** The Node that runs this, for starting workers. */
    readonly executable: string;
    readonly platform: string;
    /** The user's home directory. */
    readonly userDirectory: string;
    /** Ends this process at once, with nothing put in order, as `kill -9` would. */
    kill(): void;
  };
}
