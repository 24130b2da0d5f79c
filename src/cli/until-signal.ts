import { SluiceError } from "../foundation/errors.ts";
import type { Logger } from "../foundation/logger.ts";
import type { CliIo, StopSignal } from "./io.ts";

const signalCodes: Record<StopSignal, number> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/**
 * Runs an action that Ctrl-C stops: once cleanly, through its signal; twice at once. In both cases,
 * answers are kept. Until the action calls `listen` there is nothing to stop cleanly, and the first
 * Ctrl-C ends the process, whatever it computes.
 *
 * @returns its result, and the exit code if a signal stopped it.
 */
export async function untilSignal<T>(
  io: CliIo,
  logger: Logger,
  action: (signal: AbortSignal, listen: () => void) => Promise<T>,
): Promise<{ result: T; exitCode: number | undefined }> {
  const stop = new AbortController();
  let received: StopSignal | undefined;
  let ignore: (() => void) | undefined;
  const listen = () => {
    ignore ??= io.onSignal((signal) => {
      if (received) return io.leave(signal);
      received = signal;
      logger.log(
        "info",
        "stopping: requests in flight finish, no new ones are sent; Ctrl-C again ends at once",
      );
      stop.abort(new SluiceError("RUN_CANCELED", `by ${signal}`));
    });
  };
  // The first process of a container receives only signals that it listens to.
  if (io.process.pid === 1) listen();
  try {
    const result = await action(stop.signal, listen);
    return { result, exitCode: received && signalCodes[received] };
  } finally {
    ignore?.();
  }
}
