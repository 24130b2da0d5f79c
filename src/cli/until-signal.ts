import { createInterface } from "node:readline";
import type { ReadStream } from "node:tty";
import { SluiceError } from "../foundation/errors.ts";
import type { Logger } from "../foundation/logger.ts";
import { type CliIo, type StopSignal, signalCodes } from "./io.ts";
import { causedBy } from "./report.ts";

/** What Ctrl-C does to work that can go on without this process. */
export interface Interruption {
  /** Asked on a terminal; Ctrl-C means yes. */
  question: string;
  /** The answer yes. */
  stop(stop: AbortController): void;
  /** The answer no. */
  leave(stop: AbortController): void;
  /** Ctrl-C without a terminal, and any other stop signal. */
  interrupt(stop: AbortController): void;
}

/**
 * Runs an action that Ctrl-C stops: once cleanly, through its signal; twice at once. In both cases,
 * answers are kept. Until the action calls `listen` there is nothing to stop cleanly, and the first
 * Ctrl-C ends the process, whatever it computes.
 *
 * @param interruption if the work can go on without this process: a person is asked first.
 * @returns its result, and the exit code if a signal stopped it.
 */
export async function untilSignal<T>(
  io: CliIo,
  logger: Logger,
  action: (signal: AbortSignal, listen: () => void) => Promise<T>,
  interruption?: Interruption,
): Promise<{ result: T; exitCode: number | undefined }> {
  const stop = new AbortController();
  let received: StopSignal | undefined;
  let ignore: (() => void) | undefined;
  let endQuestion: ((isYes?: boolean) => void) | undefined;
  const stopCleanly = (signal: StopSignal) => {
    logger.log(
      "info",
      "stopping: requests in flight finish, no new ones are sent; Ctrl-C again ends at once",
    );
    stop.abort(new SluiceError("RUN_CANCELED", `by ${signal}`));
  };
  const listen = () => {
    ignore ??= io.onSignal((signal) => {
      if (endQuestion && signal === "SIGINT") return endQuestion(true);
      if (received && !endQuestion) return io.leave(signal);
      // Only a person at the terminal answers: any other signal is as without one.
      endQuestion?.();
      received = signal;
      if (!interruption) return stopCleanly(signal);
      if (signal !== "SIGINT" || !isAnswerable(io)) return interruption.interrupt(stop);
      endQuestion = ask(io, logger, interruption.question, (isYes) => {
        endQuestion = undefined;
        if (isYes === undefined) return;
        if (isYes) interruption.stop(stop);
        else interruption.leave(stop);
      });
    });
  };
  // The first process of a container receives only signals that it listens to.
  if (io.process.pid === 1) listen();
  try {
    const result = await action(stop.signal, listen);
    // A question without an answer has stopped nothing.
    return { result, exitCode: endQuestion ? undefined : received && signalCodes[received] };
  } catch (error) {
    if (received && error === stop.signal.reason) {
      io.setExitCode(signalCodes[received]);
      causedBy(received, error as Error);
    }
    throw error;
  } finally {
    endQuestion?.();
    ignore?.();
  }
}

const isAnswerable = (io: CliIo) => io.isTerminal && (io.stdin as ReadStream).isTTY === true;

/**
 * Asks on the terminal, above the progress. The returned function answers for the person, or ends
 * the question without an answer.
 */
function ask(
  io: CliIo,
  logger: Logger,
  question: string,
  onEnd: (isYes: boolean | undefined) => void,
): (isYes?: boolean) => void {
  logger.log("info", `${question} y: stop it; n: it continues without this process`);
  // Without a terminal of its own, so that Ctrl-C stays a signal.
  const lines = createInterface({ input: io.stdin, terminal: false });
  const end = (isYes?: boolean) => {
    lines.removeAllListeners();
    lines.close();
    // An open stdin would keep the process.
    io.stdin.destroy();
    onEnd(isYes);
  };
  lines.on("line", (line) => end(/^\s*y/i.test(line)));
  // Nobody can type an answer after Ctrl-D, and only a yes stops anything.
  lines.on("close", () => end(false));
  return end;
}
