import { homeDirectory } from "../api/home.ts";
import type { PackageContext } from "../engines/packages/packages.ts";
import { SluiceError } from "../foundation/errors.ts";
import { textLogger } from "../foundation/logger.ts";
import { type CliIo, type StopSignal, signalCodes } from "./io.ts";

/** What fetching models and engine packages may use of this process. */
export function downloadContext(io: CliIo, signal: AbortSignal): PackageContext {
  const logger = textLogger((line) => void io.stderr.write(line));
  return {
    clock: io.clock,
    random: io.random,
    logger: {
      log(level, message, fields) {
        if (level !== "debug") logger.log(level, message, fields);
      },
    },
    environment: io.environment,
    homeDirectory: homeDirectory(io),
    workingDirectory: io.workingDirectory,
    signal,
  };
}

/**
 * Runs an action that a stop signal (Ctrl-C) ends: its signal is aborted, the exit code is that of
 * the signal, and a line says that the same command continues the work. A second one ends it at
 * once.
 */
export async function untilStopped(
  io: CliIo,
  action: (context: PackageContext) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  let received: StopSignal | undefined;
  const ignore = io.onSignal((signal) => {
    if (received) return io.leave(signal);
    received = signal;
    stop.abort(new SluiceError("INTERNAL", `stopped by ${signal}`));
  });
  try {
    await action(downloadContext(io, stop.signal));
  } catch (error) {
    if (received === undefined) throw error;
    io.stderr.write("stopped; the same command continues from here\n");
    io.setExitCode(signalCodes[received]);
  } finally {
    ignore();
  }
}
