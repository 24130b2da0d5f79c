import type { Command } from "commander";
import { cancelAll, openScheduled, type ScheduledRun } from "../../api/scheduled-run.ts";
import { isActive } from "../../backends/joining/scheduler.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import { placesOf } from "../../run/status/run-result.ts";
import { openProgress } from "../../terminal/progress.ts";
import { type CliIo, write, writeJson } from "../io.ts";
import { endCall } from "../run-call.ts";
import { openTarget, runArguments, withOwnStores, withRun } from "../run-target.ts";
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
    const { location, dependencies, plan } = target;
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
    ).catch((error: unknown) => {
      if (asSluiceError(error).code !== "RUN_DETACHED") throw error;
    });
    progress.close();
    if (ended) return await endCall(ended, target, options, io);
    const { output } = placesOf(location, plan.generation);
    if (options.json) return await writeJson(io, { run_id: plan.runId, output });
    const again = runArguments(output, dependencies, io);
    await write(io, `left; the run continues: sluice attach ${again}\n`);
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
