import { exitCodes } from "../foundation/error-table.ts";
import type { SluiceError } from "../foundation/errors.ts";
import { type CliIo, type StopSignal, signalCodes } from "./io.ts";

/** The signals that caused errors. */
const causes = new WeakMap<Error, StopSignal>();

/** Notes that an error is only the end by a signal, whose exit code it gets when reported. */
export const causedBy = (signal: StopSignal, error: Error) => void causes.set(error, signal);

/**
 * Prints an error to stderr and sets its exit code. Faults of Sluice are printed with their stack.
 */
export function report(error: SluiceError, io: Pick<CliIo, "stderr" | "setExitCode">): void {
  io.stderr.write(`error ${error.code}: ${error.message}\n  hint: ${error.hint}\n`);
  if (error.exitCode === exitCodes.bug) {
    const origin = error.cause instanceof Error ? error.cause : error;
    io.stderr.write(`${origin.stack ?? origin.message}\n`);
  }
  const signal = causes.get(error);
  io.setExitCode(signal ? signalCodes[signal] : error.exitCode);
}
