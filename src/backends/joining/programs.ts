import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type CommandResult, runCommand, type Spawn } from "../../foundation/subprocess.ts";
import type { Environment } from "../context.ts";
import type { Rendered } from "./scheduler.ts";

/** A busy scheduler answers late; a hung one never. */
const callTimeoutMs = 60_000;
/** Longest answer of a scheduler: some 10,000 workers in JSON. */
const maxAnswerBytes = 256 * 2 ** 20;
const shownLines = 3;

/** The programs of a scheduler's client. */
export interface ProgramOptions {
  environment: Environment;
  /** What to do where a program is missing. */
  hint: string;
  /** Longest time of a call; default: a minute. */
  timeoutMs?: number;
  spawn?: Spawn;
}

/** What the driver of a scheduler gets of this process. */
export interface ClientOptions {
  environment: Environment;
  clock: Clock;
}

/**
 * Calls a program to its end.
 *
 * @throws SluiceError `SCHEDULER_MISSING` without the program; `SCHEDULER_REFUSED` if it hangs.
 */
export async function callProgram(
  program: string,
  args: readonly string[],
  { environment: env, hint, spawn, timeoutMs = callTimeoutMs }: ProgramOptions,
): Promise<CommandResult> {
  try {
    const result = await runCommand(program, args, {
      ...{ env, timeoutMs, maxOutputBytes: maxAnswerBytes },
      ...(spawn && { spawn }),
    });
    if (!result.timedOut) return result;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    throw new SluiceError("SCHEDULER_MISSING", `${program} is not on PATH`, { cause, hint });
  }
  throw new SluiceError("SCHEDULER_REFUSED", `${program} did not end within ${timeoutMs} ms`);
}

/**
 * The same, of which the output is needed.
 *
 * @throws SluiceError also `SCHEDULER_REFUSED` with the program's own words if it fails.
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
): Promise<string> {
  const result = await callProgram(program, args, options);
  if (result.code === 0) return result.stdout;
  throw refusal(program, result);
}

/** Calls a program that reads a rendered document from a file, which is removed afterwards. */
export async function withSentFile<Result>(
  { text, file }: Pick<Rendered, "text" | "file">,
  send: (path: string) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-send-"));
  try {
    const path = join(folder, file);
    await writeFile(path, text);
    return await send(path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A failed call, with the program's own last words. */
export function refusal(program: string, { code, stdout, stderr }: CommandResult): SluiceError {
  const said = (stderr.trim() || stdout.trim()).split("\n").slice(-shownLines).join("; ");
  return new SluiceError("SCHEDULER_REFUSED", `${program}: ${said || `exit code ${code}`}`);
}

/**
 * The JSON in a program's answer; messages for people may come before it.
 *
 * @throws SluiceError `SCHEDULER_REFUSED` without JSON, with the beginning of what there is.
 */
export function jsonAnswer<Answer>(text: string, program: string, args: readonly string[]): Answer {
  const start = text.search(/^[[{](?=[\s\]}"[{]|$)/m);
  try {
    return JSON.parse(text.slice(Math.max(0, start))) as Answer;
  } catch (cause) {
    const called = [program, ...args].join(" ");
    const detail = `${called} printed no JSON: ${text.trim().slice(0, 100)}`;
    throw new SluiceError("SCHEDULER_REFUSED", detail, { cause });
  }
}
