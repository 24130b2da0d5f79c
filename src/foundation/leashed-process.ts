import { type ChildProcessByStdio, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Duplex, Readable, Writable } from "node:stream";
import type { Clock } from "./clock.ts";
import { limits } from "./limits.ts";
import type { Spawn } from "./subprocess.ts";

/** How a program is started on a leash. */
export interface LeashOptions {
  /** The whole environment of the program. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Working directory; default: the caller's. */
  workingDirectory?: string | undefined;
  clock: Clock;
  /** Gives the program a channel beside its streams, on `leashChannelDescriptor`. */
  hasChannel?: boolean;
  spawn?: Spawn;
}

/** File descriptor of a program's channel; the first ones are its streams and the leash. */
export const leashChannelDescriptor = 4;

/** How a program on a leash ended. */
export interface LeashEnd {
  /** Such as `exit code 1` or `signal SIGSEGV`, or why it could not be started. */
  how: string;
  /** Exit code; null when a signal ended it, or it never ran. */
  code: number | null;
}

/** A running program that ends with this process at the latest, with all that it started. */
export interface LeashedProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Undefined where it was not asked for. */
  readonly channel: Duplex | undefined;
  /** Resolves once the program and all of its process group are gone; never rejects. */
  readonly ended: Promise<LeashEnd>;
  /** Sends the program SIGTERM. */
  terminate(): void;
  /** Ends it and its whole process group at once. */
  kill(): void;
}

/**
 * Stays beside the program, in one process group with it. Descriptor 3 is the leash: lines on it
 * name signals for the program, and its end, which comes when this process dies in whichever way,
 * is the end of the group. The program's status goes back on it, for the group is killed after the
 * program as well: what it started may hold its output open for ever. Signals that a scheduler
 * sends to every process are the program's to obey, not the keeper's.
 */
const keeper = `
trap "" TERM HUP INT
exec 5<&0 </dev/null
{ trap - TERM HUP INT; exec "$@"; } <&5 3<&- 5<&- & program=$!
exec 5<&- 4<&- >/dev/null
{ while read -r signal; do kill -"$signal" "$program"; done <&3; kill -KILL 0; } 2>/dev/null &
wait "$program"
echo "$?" >&3
kill -KILL 0`;

/** The shell's status of a program that a signal ended begins here. */
const firstSignalStatus = 128;

/**
 * Starts a program that cannot outlive this process: also after `kill -9` of it, and also if the
 * program takes no notice of the end of its stdin, it is killed together with what it started,
 * unless that has left its process group. Linux and macOS; needs `/bin/sh`.
 *
 * The program has a session of its own, so that Ctrl-C in a terminal does not reach it.
 *
 * @example
 * const program = startLeashed("python3", ["serve.py"], { environment, clock });
 * const { how } = await program.ended; // "exit code 0"
 */
export function startLeashed(
  command: string,
  args: readonly string[],
  options: LeashOptions,
): LeashedProcess {
  const child = (options.spawn ?? spawn)("/bin/sh", ["-c", keeper, "sluice", command, ...args], {
    cwd: options.workingDirectory,
    env: options.environment as NodeJS.ProcessEnv,
    stdio: ["pipe", "pipe", "pipe", "pipe", options.hasChannel ? "pipe" : "ignore"],
    detached: true,
  }) as ChildProcessByStdio<Writable, Readable, Readable>;
  const leash = child.stdio[3] as Duplex;
  // A program that ended takes nothing more; its end is told by `ended`.
  leash.on("error", () => {});
  child.stdin.on("error", () => {});
  return {
    pid: child.pid,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    channel: (child.stdio[leashChannelDescriptor] as Duplex | null | undefined) ?? undefined,
    ended: endOf(child, leash, options.clock),
    terminate: () => void leash.write("TERM\n"),
    kill: () => void leash.destroy(),
  };
}

function endOf(
  child: ChildProcessByStdio<Writable, Readable, Readable>,
  leash: Duplex,
  clock: Clock,
): Promise<LeashEnd> {
  let told = "";
  leash.setEncoding("utf8");
  leash.on("data", (text: string) => {
    told += text;
  });
  return new Promise((resolve) => {
    child.on("error", (error) => resolve({ how: error.message, code: null }));
    child.on("exit", (code, signal) => {
      const end = () => {
        if (told !== "") return resolve(endOfStatus(Number(told)));
        resolve({ how: signal === null ? `exit code ${code}` : `signal ${signal}`, code });
      };
      // What left the process group may hold the output open for ever.
      const cancel = clock.schedule(limits.maxHostOutputWaitMs, end);
      child.on("close", () => {
        cancel();
        end();
      });
    });
  });
}

function endOfStatus(status: number): LeashEnd {
  const number = status - firstSignalStatus;
  const signal = Object.entries(constants.signals).find(([, value]) => value === number)?.[0];
  return signal === undefined
    ? { how: `exit code ${status}`, code: status }
    : { how: `signal ${signal}`, code: null };
}
