import { spawn } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createInterface } from "node:readline";
import { callHere } from "../cli/call.ts";
import { sluiceProgram } from "../sluice-program.ts";

/** How a process ended. */
export interface ProcessEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** A running `sluice`. */
export interface SluiceProcess {
  pid: number;
  /** Workers that reported themselves, by their pid, in order. Empty without `--json`. */
  workers: number[];
  /** Resolves when a worker has reported itself, or the process has ended. */
  workerStarted: Promise<void>;
  ended: Promise<ProcessEnd>;
  hasEnded(): boolean;
  /** What it has written to stderr so far, by whole lines. */
  stderr(): string;
  /** To the process alone. */
  kill(signal: NodeJS.Signals): void;
  /** To the process and its workers. */
  killGroup(signal: NodeJS.Signals): void;
}

/**
 * Starts `sluice` in a process group of its own; it gets `environment` beside ours.
 *
 * @param runner a program that runs it, with the parameters that come before it.
 */
export function startSluice(
  parameters: readonly string[],
  directory: string,
  environment: Readonly<Record<string, string>> = {},
  runner: readonly string[] = [],
): SluiceProcess {
  const [program, ...words] = [...runner, process.execPath, sluiceProgram, ...parameters];
  const child = spawn(program!, words, {
    cwd: directory,
    env: { ...process.env, ...environment },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const pid = child.pid!;
  const workers: number[] = [];
  let [stdout, stderr] = ["", ""];
  let isOver = false;
  const started = Promise.withResolvers<void>();
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  createInterface({ input: child.stderr }).on("line", (line) => {
    stderr += `${line}\n`;
    const worker = workerIn(line);
    if (worker === undefined) return;
    workers.push(worker);
    started.resolve();
  });
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once("exit", () => {
      isOver = true;
      started.resolve();
    });
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return {
    pid,
    workers,
    workerStarted: started.promise,
    ended,
    hasEnded: () => isOver,
    stderr: () => stderr,
    kill: (signal) => void child.kill(signal),
    killGroup: (signal) => killQuietly(-pid, signal),
  };
}

/** Commands that start no worker: they read and write files, here or in a store. */
const inProcess = [
  ...["status", "verify", "results", "logs"],
  ...["plan", "shard", "upload", "download"],
];
const fleetReaders = ["get", "list", "logs", "task list", "worker list", "worker profiles"];

/**
 * Runs `sluice` to its end. What starts no worker is called in this process, by the sources: a
 * process for each call takes a third of a second of a core. `examples.test.ts` and
 * `far-files.test.ts` have the packed program do the same.
 */
export function runSluice(
  parameters: readonly string[],
  directory: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<ProcessEnd> {
  return startsNoWorker(parameters)
    ? callHere(parameters, directory, environment)
    : startSluice(parameters, directory, environment).ended;
}

function startsNoWorker([command = "", ...words]: readonly string[]): boolean {
  if (command !== "fleet") return inProcess.includes(command);
  return fleetReaders.some((reader) => words.join(" ").startsWith(reader));
}

function workerIn(line: string): number | undefined {
  if (!line.startsWith("{") || !line.includes('"type":"worker-start"')) return undefined;
  return (JSON.parse(line) as { pid: number }).pid;
}

/** Sends a signal, if anybody is left to get it. */
export function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** True while the process runs; one that is dead and not waited for does not. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2, text.lastIndexOf(")") + 3) !== "Z";
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    // Without /proc the answer of kill stands.
    return code === "ENOENT" && syscall === "open" && process.platform !== "linux";
  }
}

/** Processes that were started in a folder and still run. Only Linux tells. */
export function runningIn(directory: string): number[] {
  if (process.platform !== "linux") return [];
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => folderOf(pid) === directory).map(Number);
}

function folderOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

/**
 * Waits until all have gone; returns those that have not after `maxMs`, by default many times what
 * an orphan may live on.
 */
export async function stillRunning(pids: readonly number[], maxMs = 60_000): Promise<number[]> {
  const endMs = performance.now() + maxMs;
  let left = pids.filter(isRunning);
  while (left.length > 0 && performance.now() < endMs) {
    await pause(50);
    left = left.filter(isRunning);
  }
  return left;
}

/** Real time, in milliseconds. */
export function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}
