import { exitCodes } from "../foundation/error-table.ts";
import type { SluiceError } from "../foundation/errors.ts";
import type { CliIo } from "./io.ts";

/**
 * Prints an error to stderr and sets its exit code. Faults of Sluice are printed with their stack.
 */
export function report(error: SluiceError, io: Pick<CliIo, "stderr" | "setExitCode">): void {
  io.stderr.write(`error ${error.code}: ${error.message}\n  hint: ${error.hint}\n`);
  if (error.exitCode === exitCodes.bug) {
    const origin = error.cause instanceof Error ? error.cause : error;
    io.stderr.write(`${origin.stack ?? origin.message}\n`);
  }
  io.setExitCode(error.exitCode);
}
