import { type SpawnOptions, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { systemClock } from "./clock.ts";
import { limits } from "./limits.ts";

/** `spawn` of `node:child_process`, which starts a child program; a test may pass its own. */
export type Spawn = typeof spawn;

/** Environment variables of a program. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Options of `runCommand`. */
export interface CommandOptions {
  /** The whole environment of the child. */
  env?: Environment;
  /** Working directory; default: the caller's. */
  cwd?: string;
  /** The child is killed after this long; default: never. */
  timeoutMs?: number;
  /** How much of each stream is returned; default `limits.maxCommandOutputBytes`. */
  maxOutputBytes?: number;
  /** Called for each line that the child writes to stdout or stderr. */
  onLine?: (line: string) => void;
  /** Kills the child when aborted; the promise then rejects with its reason. */
  signal?: AbortSignal;
  spawn?: Spawn;
}

/** How a program ended. */
export interface CommandResult {
  /** Exit code; null when a signal ended it. */
  code: number | null;
  /** The last `maxOutputBytes` characters of each stream. */
  stdout: string;
  stderr: string;
  /** True when `timeoutMs` ran out. */
  timedOut: boolean;
}

/**
 * Runs a program to its end, without a shell and with an empty stdin.
 *
 * @throws the system's error if the program cannot be started (`code` is `ENOENT` if it does not
 *   exist).
 * @example
 * const { code, stdout } = await runCommand("python3", ["--version"]);
 */
export function runCommand(
  command: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  const { cwd, timeoutMs, onLine, signal } = options;
  const { maxOutputBytes = limits.maxCommandOutputBytes } = options;
  const spawnOptions: SpawnOptions = {
    cwd,
    env: options.env as NodeJS.ProcessEnv | undefined,
    stdio: ["ignore", "pipe", "pipe"],
    windowsHide: true,
    killSignal: "SIGKILL",
    signal,
  };
  return new Promise((resolve, reject) => {
    const child = (options.spawn ?? spawn)(command, args, spawnOptions);
    const stdout = keepTail(child.stdout!, maxOutputBytes, onLine);
    const stderr = keepTail(child.stderr!, maxOutputBytes, onLine);
    // The timeout of `spawn` would keep a program that failed to start waiting until it runs out.
    const cancelKill =
      timeoutMs === undefined
        ? () => {}
        : systemClock.schedule(timeoutMs, () => void child.kill("SIGKILL"));
    child.on("error", (error) => {
      cancelKill();
      reject(signal?.aborted ? signal.reason : error);
    });
    child.on("exit", cancelKill);
    child.on("close", (code, endSignal) => {
      const timedOut = endSignal === "SIGKILL" && timeoutMs !== undefined && child.killed;
      resolve({ code, stdout: stdout(), stderr: stderr(), timedOut });
    });
  });
}

/** Collects the end of a stream; the returned function gives what it has. */
export function keepTail(
  stream: Readable,
  maxBytes: number,
  onLine?: (line: string) => void,
): () => string {
  let tail = "";
  let line = "";
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    tail = (tail + text).slice(-maxBytes);
    if (onLine === undefined) return;
    const lines = (line + text).split(/\r?\n|\r/);
    line = lines.pop()!.slice(-limits.maxCommandOutputBytes);
    for (const whole of lines) onLine(whole);
  });
  stream.on("end", () => {
    if (line !== "") onLine?.(line);
  });
  return () => tail;
}
