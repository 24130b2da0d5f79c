import { execFileSync, spawn } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type BenchSetting, dataDirectory } from "./setting.ts";

export interface ProgramOptions {
  environment?: Record<string, string>;
  /** Note the peak memory of the program and of every Node that it starts. */
  isMemoryNoted?: boolean;
  /** Called for each line on stderr, with the seconds since the start. */
  onLine?: (line: string, seconds: number) => void;
}

/** How a program ran that ended well. */
export interface ProgramRun {
  /** From before its start until it was gone. */
  seconds: number;
  stdout: string;
  /** The most that any one of its processes held; 0 where it was not noted. */
  peakMemoryBytes: number;
}

const peakFile = join(dataDirectory, "peak-memory.txt");
const peakHook = join(import.meta.dirname, "peak-memory.cjs");

/**
 * Runs a Node program to its end.
 *
 * @throws Error with what it wrote to stderr, when its exit code is not 0.
 */
export async function runProgram(
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<ProgramRun> {
  const { isMemoryNoted = false, onLine } = options;
  if (isMemoryNoted) rmSync(peakFile, { force: true });
  const hook = { NODE_OPTIONS: `--require ${JSON.stringify(peakHook)}`, PEAK_MEMORY: peakFile };
  const env = { ...process.env, ...(isMemoryNoted ? hook : {}), ...options.environment };
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  let openLine = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    const seconds = (performance.now() - startedMs) / 1000;
    const lines = (openLine + text).split("\n");
    openLine = lines.pop()!;
    for (const line of lines) onLine?.(line, seconds);
    stderr = (stderr + text).slice(-10_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  const seconds = (performance.now() - startedMs) / 1000;
  if (code !== 0) throw new Error(`${args.join(" ")}: exit code ${code}\n${stderr}${stdout}`);
  return { seconds, stdout, peakMemoryBytes: isMemoryNoted ? mostOf(peakFile) : 0 };
}

/** Runs the installed `sluice` to its end. */
export function runSluice(
  { packageDirectory }: BenchSetting,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<ProgramRun> {
  return runProgram([join(packageDirectory, "bin/sluice.cjs"), ...args], options);
}

/** Has the system write what earlier programs left, so that the next one does not wait for it. */
export function settleDisk(): void {
  if (process.platform !== "win32") execFileSync("sync");
}

function mostOf(file: string): number {
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return Math.max(...lines.map(Number));
}
