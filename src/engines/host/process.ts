import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable } from "node:stream";
import { type Channel, jsonLinesChannel } from "../../foundation/channel.ts";
import type { Clock } from "../../foundation/clock.ts";
import { limits } from "../../foundation/limits.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import { type FromHost, hostChannelDescriptor, type ToHost } from "./protocol.ts";

/** A running engine host, seen from its worker. */
export interface HostProcess {
  readonly pid: number | undefined;
  readonly channel: Channel<ToHost, FromHost>;
  /** Resolves once the process is gone and its output was read, with what is known of its end. */
  readonly ended: Promise<HostEnd>;
  /** Ends it at once, whatever it does. */
  kill(): void;
}

/** How a host ended. */
export interface HostEnd {
  /** Such as `exit code 1` or `signal SIGSEGV`. */
  how: string;
  /** The last lines that it wrote. */
  lines: readonly string[];
}

/** How a host is started. */
export interface HostProcessOptions {
  command: readonly string[];
  environment: Readonly<Record<string, string | undefined>>;
  /** Called for each line the host or its native libraries write. */
  onLine: (line: string) => void;
  clock: Clock;
  /** Native calls that go on at once; default 1. */
  nativeCalls?: number | undefined;
  spawn?: Spawn;
}

/**
 * Starts a host. Its stdout and stderr are both read as logs; messages travel on a descriptor of
 * their own. libuv gets a thread for each native call that goes on at once, and no more: decoding
 * that hops between threads measured 20 to 70 % slower.
 */
export function startHostProcess(options: HostProcessOptions): HostProcess {
  const [program = "", ...args] = options.command;
  const child: ChildProcess = (options.spawn ?? spawn)(program, args, {
    env: { ...options.environment, UV_THREADPOOL_SIZE: String(options.nativeCalls ?? 1) },
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    windowsHide: true,
  });
  const lines: string[] = [];
  const keep = (line: string) => {
    lines.push(line);
    if (lines.length > limits.maxHostOutputLines) lines.shift();
    options.onLine(line);
  };
  readLines(child.stdout!, keep);
  readLines(child.stderr!, keep);
  const socket = child.stdio[hostChannelDescriptor] as Duplex;
  return {
    pid: child.pid,
    channel: jsonLinesChannel(socket, socket),
    ended: new Promise((resolve) => {
      child.on("error", (error) => resolve({ how: error.message, lines }));
      child.on("exit", (code, signal) => {
        const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
        // A child of the host may hold its output open for ever.
        const cancel = options.clock.schedule(limits.maxHostOutputWaitMs, () =>
          resolve({ how, lines }),
        );
        child.on("close", () => {
          cancel();
          resolve({ how, lines });
        });
      });
    }),
    kill: () => void child.kill("SIGKILL"),
  };
}

function readLines(stream: Readable, onLine: (line: string) => void): void {
  let pending = "";
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const lines = (pending + text).split(/\r?\n/);
    pending = lines.pop()!.slice(-limits.readChunkBytes);
    for (const line of lines) if (line.trim() !== "") onLine(line);
  });
  stream.on("end", () => {
    if (pending.trim() !== "") onLine(pending);
  });
}
