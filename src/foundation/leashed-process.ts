import { type ChildProcessByStdio, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Duplex, Readable, Writable } from "node:stream";
import { type Clock, systemClock } from "./clock.ts";
import { limits } from "./limits.ts";
import { type CommandOptions, type CommandResult, keepTail, type Spawn } from "./subprocess.ts";

/** How to start a program on a leash. */
export interface LeashOptions {
  /** The whole environment of the program. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Working directory; default: the caller's. */
  workingDirectory?: string | undefined;
  clock: Clock;
  /** Gives the program a channel beside its standard streams, on `leashChannelDescriptor`. */
  hasChannel?: boolean;
  spawn?: Spawn | undefined;
}

export type RunLeashedOptions = Pick<CommandOptions, "cwd" | "signal" | "spawn"> &
  Required<Pick<CommandOptions, "env" | "timeoutMs">>;

/** File descriptor of a program's channel; 0 to 2 are its standard streams and 3 is the leash. */
export const leashChannelDescriptor = 4;

/** How a program on a leash ended. */
export interface LeashEnd {
  /** Such as `exit code 1` or `signal SIGSEGV`, or why it could not be started. */
  how: string;
  /** Exit code; null if a signal ended the program, or if it never ran. */
  code: number | null;
}

/** A running program that never outlives this process; the same is true of what it started. */
export interface LeashedProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Undefined unless `hasChannel` was set. */
  readonly channel: Duplex | undefined;
  /** Resolves once the program and all of its process group are gone; never rejects. */
  readonly ended: Promise<LeashEnd>;
  /** True from the end of the program itself on, when its output may still have to be read. */
  hasEnded(): boolean;
  /** Sends the program SIGTERM. */
  terminate(): void;
  /** Kills the program and its whole process group at once. */
  kill(): void;
}

/**
 * A shell that stays beside the program, in the same process group. Descriptor 3 is the leash. A
 * line on the leash names a signal for the program. The end of the leash, which comes when this
 * process dies in any way, kills the group. A second shell reads the leash and a third one waits
 * for the end of the second: no single death among them leaves a program without a leash. The
 * program's exit status comes back on the leash, since the group is killed after the program too: a
 * child of it may hold the output open for ever. A scheduler may send signals to every process:
 * only the program obeys them.
 */
const keeper = `
trap "" TERM HUP INT
exec 5<&0 </dev/null
{ trap - TERM HUP INT; exec "$@"; } <&5 3<&- 5<&- & program=$!
exec 5<&- 4<&- >/dev/null 2>&1
{ while read -r signal; do kill -"$signal" "$program"; done <&3; kill -KILL 0; } 2>/dev/null |
  { exec 3<&-; read -r none; kill -KILL 0; } &
wait "$program"
echo "$?" >&3
kill -KILL 0`;

/** The keeper's name in its own messages. */
const keeperName = "sluice";

/** The shell's status of a program that does not exist. */
const absentStatus = 127;

/** Shell statuses above this one mean that a signal ended the program. */
const firstSignalStatus = 128;

/**
 * Starts a program that cannot outlive this process. The program and its children are killed even
 * if this process dies by `kill -9`, and even if the program ignores the end of its stdin. Only a
 * child that leaves the process group escapes. Linux and macOS; needs `/bin/sh`.
 *
 * The program has its own session, so Ctrl-C in a terminal does not reach it.
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
  const child = (options.spawn ?? spawn)("/bin/sh", ["-c", keeper, keeperName, command, ...args], {
    cwd: options.workingDirectory,
    env: options.environment as NodeJS.ProcessEnv,
    stdio: ["pipe", "pipe", "pipe", "pipe", options.hasChannel ? "pipe" : "ignore"],
    detached: true,
  }) as ChildProcessByStdio<Writable, Readable, Readable>;
  const leash = child.stdio[3] as Duplex;
  // Writing to a program that has ended fails; `ended` reports the end.
  leash.on("error", () => {});
  child.stdin.on("error", () => {});
  const { ended, hasEnded } = endOf(child, leash, options.clock);
  // If the keeper itself was killed, nothing else ends what it kept.
  void ended.then(() => leash.destroy());
  return {
    pid: child.pid,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    channel: (child.stdio[leashChannelDescriptor] as Duplex | null | undefined) ?? undefined,
    ended,
    hasEnded,
    terminate: () => void leash.write("TERM\n"),
    kill: () => void leash.destroy(),
  };
}

/**
 * Like `runCommand`, for a program that must not outlive this process.
 *
 * @throws Error with code `ENOENT` if the program does not exist; the signal's reason.
 */
export async function runLeashed(
  command: string,
  args: readonly string[],
  options: RunLeashedOptions,
): Promise<CommandResult> {
  const { cwd: workingDirectory, env: environment, timeoutMs, signal, spawn } = options;
  signal?.throwIfAborted();
  const clock = systemClock;
  const program = startLeashed(command, args, { environment, workingDirectory, clock, spawn });
  program.stdin.end();
  const stdout = keepTail(program.stdout, limits.maxCommandOutputBytes);
  const stderr = keepTail(program.stderr, limits.maxCommandOutputBytes);
  let timedOut = false;
  const cancelKill = clock.schedule(timeoutMs, () => {
    timedOut = true;
    program.kill();
  });
  signal?.addEventListener("abort", program.kill, { once: true });
  const { code } = await program.ended;
  cancelKill();
  signal?.removeEventListener("abort", program.kill);
  signal?.throwIfAborted();
  if (code === absentStatus && isAbsentToKeeper(command, stderr())) {
    throw Object.assign(new Error(`there is no ${command}`), { code: "ENOENT" });
  }
  return { code, stdout: stdout(), stderr: stderr(), timedOut };
}

/** Whether the keeper itself says that there is no such program: a script may end like that too. */
function isAbsentToKeeper(command: string, stderr: string): boolean {
  const lines = stderr.split("\n").filter((line) => line.startsWith(`${keeperName}: `));
  return lines.some((line) => line.includes(` ${command}: `));
}

function endOf(
  child: ChildProcessByStdio<Writable, Readable, Readable>,
  leash: Duplex,
  clock: Clock,
): Pick<LeashedProcess, "ended" | "hasEnded"> {
  let told = "";
  leash.setEncoding("utf8");
  leash.on("data", (text: string) => {
    told += text;
  });
  const ended = new Promise<LeashEnd>((resolve) => {
    child.on("error", (error) => resolve({ how: error.message, code: null }));
    child.on("exit", (code, signal) => {
      const end = () => {
        if (told !== "") return resolve(endOfStatus(Number(told)));
        resolve({ how: signal === null ? `exit code ${code}` : `signal ${signal}`, code });
      };
      // A child that left the process group may hold the output open for ever.
      const cancel = clock.schedule(limits.maxHostOutputWaitMs, end);
      child.on("close", () => {
        cancel();
        end();
      });
    });
  });
  const hasEnded = () => told !== "" || child.exitCode !== null || child.signalCode !== null;
  return { ended, hasEnded };
}

function endOfStatus(status: number): LeashEnd {
  const number = status - firstSignalStatus;
  const signal = Object.entries(constants.signals).find(([, value]) => value === number)?.[0];
  return signal === undefined
    ? { how: `exit code ${status}`, code: status }
    : { how: `signal ${signal}`, code: null };
}
