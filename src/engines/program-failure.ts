import { constants } from "node:os";
import { errorTable } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";

/** How a program that failed ended. */
export interface ProgramFailure {
  /** Such as `exit code 3` or `signal SIGKILL`. */
  how: string;
  /** Its time-out, if that had run out. */
  timeoutMs: number | undefined;
  /** The last line of its output; may be empty. */
  lastLine: string;
}

/** The failure of a program as an error of its row. */
export function programFailure({ how, timeoutMs, lastLine }: ProgramFailure): SluiceError {
  const said = lastLine === "" ? "" : `; its last line: ${lastLine}`;
  if (timeoutMs === undefined) return new SluiceError("PROGRAM_FAILED", `${how}${said}`);
  const after = `after ${timeoutMs / 1000} s: ${how}${said}`;
  return new SluiceError("PROGRAM_TIMED_OUT", after);
}

/**
 * The result code of a task, from the message of its failure: commits and dead letters keep
 * messages. A program that a signal ended has 128 and the signal's number, as in a shell.
 *
 * @returns undefined if no program ended, as when its worker was lost.
 * @example
 * resultCodeOf("the program failed: exit code 3; its last line: no such file"); // 3
 */
export function resultCodeOf(message: string): number | undefined {
  const [, code, signal] = endPattern.exec(message) ?? [];
  if (code !== undefined) return Number(code);
  const number = constants.signals[signal as keyof typeof constants.signals];
  return number === undefined ? undefined : 128 + number;
}

// The end comes first: a program's own last line may look like one.
const endPattern = new RegExp(
  `^(?:${errorTable.PROGRAM_FAILED.message}|${errorTable.PROGRAM_TIMED_OUT.message}: after [\\d.]+ s)` +
    ": (?:exit code (\\d+)|signal (SIG\\w+))",
);
