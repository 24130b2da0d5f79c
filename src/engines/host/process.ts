import { type Channel, jsonLinesChannel } from "../../foundation/channel.ts";
import type { Clock } from "../../foundation/clock.ts";
import { startLeashed } from "../../foundation/leashed-process.ts";
import { limits } from "../../foundation/limits.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import { readOutputLines } from "../output-lines.ts";
import type { FromHost, ToHost } from "./protocol.ts";

/** A running engine host, seen from its worker. */
export interface HostProcess {
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
  spawn?: Spawn;
}

/**
 * Starts a host, which ends with everything that it started, and with this process. Its stdout and
 * stderr are both read as logs; messages use a separate descriptor. libuv gets a thread for each
 * parallel native call, and no more: decoding on changing threads was 20 to 70 % slower.
 */
export function startHostProcess(options: HostProcessOptions): HostProcess {
  const { command, clock, spawn, nativeCalls = 1 } = options;
  const [program = "", ...args] = command;
  const environment = { ...options.environment, UV_THREADPOOL_SIZE: String(nativeCalls) };
  const leash = { environment, clock, hasChannel: true, ...(spawn && { spawn }) };
  const { stdin, stdout, stderr, channel, ended, kill } = startLeashed(program, args, leash);
  stdin.end();
  const lines: string[] = [];
  const keep = (line: string) => {
    lines.push(line);
    if (lines.length > limits.maxHostOutputLines) lines.shift();
    options.onLine(line);
  };
  for (const stream of [stdout, stderr]) {
    readOutputLines(stream, limits.readChunkBytes, { onLine: keep });
  }
  return {
    channel: jsonLinesChannel(channel!, channel!),
    ended: ended.then(({ how }) => {
      // Perhaps only the holder of the leash ended.
      kill();
      return { how, lines };
    }),
    kill,
  };
}
