import type { Command } from "commander";
import { openScheduled } from "../../api/scheduled-run.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type CliIo, write } from "../io.ts";
import { openTarget, withRun } from "../run-target.ts";
import { wholeNumber } from "../whole-number.ts";

interface LogFlags {
  share?: string;
  follow?: boolean;
}

/** `sluice logs RUN`: what the workers of a scheduler wrote. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--share <number>", "only the worker of this share, from 0")
    .option("--follow", "continue with what is added, until Ctrl-C")
    .action((run: string, options: LogFlags) => logs(run, options, io));
}

async function logs(run: string, options: LogFlags, io: CliIo): Promise<void> {
  const share = options.share === undefined ? undefined : wholeNumber(options.share);
  if (share !== undefined && !(Number.isSafeInteger(share) && share >= 0)) {
    throw new SluiceError("USAGE", `--share must be a number from 0, not "${options.share}"`);
  }
  const { location, dependencies } = await openTarget(run, io);
  const opened = await openScheduled(location, dependencies, io);
  const { scheduled, backend, submitted } = opened;
  if (!scheduled) {
    throw new SluiceError("UNSUPPORTED", `logs of a run with backend: ${backend}`, {
      hint: "its workers write to the terminal where it was started",
    });
  }
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort());
  try {
    await scheduled.logs(await submitted(), {
      ...(share !== undefined && { share }),
      follow: options.follow ?? false,
      signal: AbortSignal.any([stop.signal, io.outputClosed]),
      write: (text) => write(io, text),
    });
  } finally {
    ignore();
  }
}
