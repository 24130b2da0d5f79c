import { SluiceError } from "../foundation/errors.ts";
import type { Logger } from "../foundation/logger.ts";
import type { CliIo, StopSignal } from "./io.ts";

const signalCodes: Record<StopSignal, number> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/**
 * Runs an action that Ctrl-C stops: once cleanly, through its signal; twice at once. Either way
 * nothing answered is lost.
 *
 * @returns its result, and the exit code where a signal stopped it.
 */
export async function untilSignal<T>(
  io: CliIo,
  logger: Logger,
  action: (signal: AbortSignal) => Promise<T>,
): Promise<{ result: T; exitCode: number | undefined }> {
  const stop = new AbortController();
  let received: StopSignal | undefined;
  const ignore = io.onSignal((signal) => {
    if (received) return io.leave(signal);
    received = signal;
    logger.log(
      "info",
      "stopping: requests in flight finish, no new ones are sent; Ctrl-C again ends at once",
    );
    stop.abort(new SluiceError("RUN_CANCELED", `by ${signal}`));
  });
  try {
    const result = await action(stop.signal);
    return { result, exitCode: received && signalCodes[received] };
  } finally {
    ignore();
  }
}
