import type { Readable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import type { Clock } from "../../foundation/clock.ts";
import { type LeashEnd, startLeashed } from "../../foundation/leashed-process.ts";
import { limits } from "../../foundation/limits.ts";
import type { Spawn } from "../../foundation/subprocess.ts";

/** Characters to keep of a line of a managed server. */
export const maxServerLineChars = 1000;

/** How a server is started. */
export interface ServerProcessOptions {
  /** The program and its arguments. */
  command: readonly [string, ...string[]];
  /** The whole environment of the server. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Removes secrets from its output. */
  redact: (text: string) => string;
  clock: Clock;
  spawn?: Spawn;
}

/** A server that runs as a child of this process and ends with it. */
export interface ServerProcess {
  /** Its last lines on either stream. */
  readonly lines: readonly string[];
  /** Resolves once it is gone, with everything that it started. */
  readonly ended: Promise<LeashEnd>;
  /** False once it is gone. */
  readonly isRunning: boolean;
  /** Asks it to leave, and ends it after `limits.serverStopGraceMs`. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
}

/** Starts a server. Its output is kept to explain its end, and is too much for the log. */
export function startServerProcess(options: ServerProcessOptions): ServerProcess {
  const { command, environment, redact, clock, spawn } = options;
  const [program, ...args] = command;
  const child = startLeashed(program, args, { environment, clock, ...(spawn && { spawn }) });
  child.stdin.end();
  const lines: string[] = [];
  const keep = (line: string) => {
    // Redacted before it is cut: half a secret would not be found.
    lines.push(redact(line).slice(0, maxServerLineChars));
    if (lines.length > limits.maxHostOutputLines) lines.shift();
  };
  passLines(child.stdout, keep);
  passLines(child.stderr, keep);
  let isRunning = true;
  const ended = child.ended.then((end) => {
    isRunning = false;
    // Perhaps only the holder of the leash ended.
    child.kill();
    return end;
  });
  return {
    lines,
    ended,
    get isRunning() {
      return isRunning;
    },
    async stop() {
      child.terminate();
      const cancelKill = clock.schedule(limits.serverStopGraceMs, child.kill);
      await ended;
      cancelKill();
    },
    kill: child.kill,
  };
}

/** Progress bars are drawn again on one line, after a carriage return: each counts as a line. */
function passLines(stream: Readable, onLine: (line: string) => void): void {
  let pending = "";
  const take = (line: string) => {
    const clean = stripVTControlCharacters(line).trim();
    if (clean !== "") onLine(clean);
  };
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const lines = (pending + text).split(/[\r\n]+/);
    pending = lines.pop()!.slice(0, limits.readChunkBytes);
    for (const line of lines) take(line);
  });
  stream.on("end", () => take(pending));
}
