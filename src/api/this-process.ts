import { homedir } from "node:os";
import { systemClock } from "../foundation/clock.ts";
import { systemRandom } from "../foundation/random.ts";
import type { Surroundings } from "./surroundings.ts";

/** The process that this runs in: a program of yours has no command line to hand it down. */
export function thisProcess(): Surroundings {
  return {
    clock: systemClock,
    random: systemRandom,
    environment: process.env,
    workingDirectory: process.cwd(),
    process: {
      pid: process.pid,
      executable: process.execPath,
      platform: process.platform,
      userDirectory: homedir(),
      kill: () => void process.kill(process.pid, "SIGKILL"),
    },
  };
}
