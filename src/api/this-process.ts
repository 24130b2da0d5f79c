import { homedir } from "node:os";
import { systemClock } from "../foundation/clock.ts";
import { systemRandom } from "../foundation/random.ts";
import type { Terminal } from "../terminal/terminal.ts";
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

/** Where a program's stderr is shown. */
export function ownTerminal(): Terminal {
  const { stderr, env: environment } = process;
  return {
    stderr,
    isTerminal: stderr.isTTY === true,
    columns: () => stderr.columns ?? 80,
    clock: systemClock,
    environment,
  };
}
