import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable } from "node:stream";
import { type Channel, jsonLinesChannel } from "../../foundation/channel.ts";
import type { Clock } from "../../foundation/clock.ts";
import { leashChannelDescriptor, startLeashed } from "../../foundation/leashed-process.ts";
import { limits } from "../../foundation/limits.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import { readOutputLines } from "../output-lines.ts";
import type { FromHost, ToHost } from "./protocol.ts";

/** A running engine host, seen from its worker. */
export interface HostProcess {
  readonly pid: number | undefined;
  readonly channel: Channel<ToHost<unknown, unknown>, FromHost>;
  /** Resolves with the facts of its end, once the process is gone and its output was read. */
  readonly ended: Promise<HostEnd>;
  /** Ends it at once, whatever it does. */
  kill(): void;
}

export interface HostEnd {
  /** Such as `exit code 1` or `signal SIGSEGV`. */
  how: string;
  /** Its last lines. */
  lines: readonly string[];
}

/** How a host is started. */
export interface HostProcessOptions {
  command: readonly string[];
  environment: Readonly<Record<string, string | undefined>>;
  /** Called for each line of the host or its native libraries. */
  onLine: (line: string) => void;
  clock: Clock;
  /** Parallel native calls; default 1. */
  nativeCalls?: number | undefined;
  /**
   * It runs code of the user, which may start programs and may never pause: it ends with everything
   * that it started, and with this process, whatever it does then.
   */
  isLeashed?: boolean;
  spawn?: Spawn;
}

/**
 * Starts a host. Its stdout and stderr are both read as logs; messages use a separate descriptor.
 * libuv gets a thread for each parallel native call, and no more: decoding on changing threads was
 * 20 to 70 % slower.
 */
export function startHostProcess(options: HostProcessOptions): HostProcess {
  const environment = {
    ...options.environment,
    UV_THREADPOOL_SIZE: String(options.nativeCalls ?? 1),
  };
  const started = options.isLeashed
    ? startOnLeash(options, environment)
    : startBeside(options, environment);
  const lines: string[] = [];
  const keep = (line: string) => {
    lines.push(line);
    if (lines.length > limits.maxHostOutputLines) lines.shift();
    options.onLine(line);
  };
  for (const stream of [started.stdout, started.stderr]) {
    readOutputLines(stream, limits.readChunkBytes, { onLine: keep });
  }
  return {
    pid: started.pid,
    channel: jsonLinesChannel(started.socket, started.socket),
    ended: started.ended.then((how) => ({ how, lines })),
    kill: started.kill,
  };
}

/** A process before its channel and its lines are read. */
interface Started {
  pid: number | undefined;
  stdout: Readable;
  stderr: Readable;
  socket: Duplex;
  ended: Promise<string>;
  kill(): void;
}

type Environment = HostProcessOptions["environment"];

function startOnLeash(
  { command: [program = "", ...args], clock, spawn }: HostProcessOptions,
  environment: Environment,
): Started {
  const leash = { environment, clock, hasChannel: true, ...(spawn && { spawn }) };
  const { pid, stdin, stdout, stderr, channel, ended, kill } = startLeashed(program, args, leash);
  stdin.end();
  // Perhaps only the holder of the leash ended.
  const how = ended.then((end) => {
    kill();
    return end.how;
  });
  return { pid, stdout, stderr, socket: channel!, ended: how, kill };
}

function startBeside(
  { command: [program = "", ...args], clock, spawn: given }: HostProcessOptions,
  environment: Environment,
): Started {
  const child: ChildProcess = (given ?? spawn)(program, args, {
    env: environment as NodeJS.ProcessEnv,
    stdio: ["ignore", "pipe", "pipe", "ignore", "pipe"],
    windowsHide: true,
  });
  const ended = new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("exit", (code, signal) => {
      const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
      // A child of the host may keep its output open for ever.
      const cancel = clock.schedule(limits.maxHostOutputWaitMs, () => resolve(how));
      child.on("close", () => {
        cancel();
        resolve(how);
      });
    });
  });
  return {
    pid: child.pid,
    stdout: child.stdout!,
    stderr: child.stderr!,
    socket: child.stdio[leashChannelDescriptor] as Duplex,
    ended,
    kill: () => void child.kill("SIGKILL"),
  };
}
