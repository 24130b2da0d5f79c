import type { Command } from "commander";
import { cancelAll, openScheduled, type ScheduledRun } from "../../api/scheduled-run.ts";
import { isActive } from "../../backends/joining/scheduler.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import { openProgress } from "../../terminal/progress.ts";
import { type CliIo, write } from "../io.ts";
import { endCall } from "../run-call.ts";
import { argumentOf, openTarget, withOwnStores, withRun } from "../run-target.ts";
import { untilSignal } from "../until-signal.ts";

interface AttachFlags {
  json?: boolean;
  quiet?: boolean;
}

/** `sluice attach RUN`: shows a run that others carry out, to its end. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--json", "progress and the summary as JSON lines")
    .option("--quiet", "no progress")
    .action((run: string, options: AttachFlags) => attach(run, options, io));
}

async function attach(run: string, options: AttachFlags, io: CliIo): Promise<void> {
  const progress = openProgress(options, io);
  const { logger, onEvent } = progress;
  try {
    const target = await withOwnStores(await openTarget(run, io, logger), io);
    const { location, dependencies } = target;
    const opened = await openScheduled(location, dependencies, io);
    const { attachRun } = await import("../../run/follow/attach-run.ts");
    const leave = (stop: AbortController) => stop.abort(new SluiceError("RUN_DETACHED"));
    const ended = await untilSignal(
      io,
      logger,
      (signal, listen) => {
        listen();
        const countPlaced = placedCounter(opened, logger);
        return attachRun(location, dependencies, { onEvent, signal, countPlaced });
      },
      {
        question: "stop the run as well?",
        stop: () =>
          void cancelAll(opened, { waitMs: 0 }).catch((error: unknown) =>
            logger.log("error", asSluiceError(error).message),
          ),
        leave,
        interrupt: leave,
      },
    );
    progress.close();
    await endCall(ended, dependencies, options, io);
  } catch (error) {
    progress.close();
    if (asSluiceError(error).code !== "RUN_DETACHED") throw error;
    await write(io, `left; the run continues: sluice attach ${argumentOf(run, io)}\n`);
  } finally {
    progress.close();
  }
}

/** Asks the scheduler. Without its client on this machine, workers that wait are not known. */
function placedCounter({ scheduled, submitted }: ScheduledRun, logger: Logger) {
  if (!scheduled) return undefined;
  let isTold = false;
  return async () => {
    const seen = await scheduled.look(await submitted());
    if (!(seen instanceof SluiceError)) return seen.filter(isActive).length;
    if (!isTold) logger.log("warn", `waiting workers cannot be seen here: ${seen.message}`);
    isTold = true;
    return undefined;
  };
}
