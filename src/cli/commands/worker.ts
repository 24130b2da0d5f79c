import { hostname } from "node:os";
import type { Command } from "commander";
import { engineContext, runDependencies } from "../../api/run-dependencies.ts";
import { absoluteLocation } from "../../data/storage/open.ts";
import { redactor } from "../../engines/secrets.ts";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { exitCodes } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type Logger, textLogger } from "../../foundation/logger.ts";
import { schedulerPlace } from "../../run/coordinate/scheduler-place.ts";
import { locateRun } from "../../run/directory/locate.ts";
import type { Preparation } from "../../run/dispatch/backend.ts";
import type { FromWorker, ToWorker } from "../../run/worker/protocol.ts";
import { untilRunOpen } from "../../run/worker/run-open.ts";
import type { RunWorkerOptions } from "../../run/worker/run-worker.ts";
import type { CliIo } from "../io.ts";
import { outputOf, runDescription } from "../run-target.ts";
import { withStoreFlags } from "../store-flags.ts";
import { wholeNumber } from "../whole-number.ts";

interface WorkerOptions {
  stdio?: boolean;
  prepare?: boolean;
  tasks?: string;
  share?: string;
  help: boolean;
  generation: string;
}

/** `sluice worker RUN [--stdio | --tasks 1,3-5 | --share 3/16 [--no-help]]`. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("[run]", `${runDescription}; not needed with --stdio`)
    .option("--stdio", "obey JSON lines on stdin, as in docs/worker-contract.md")
    .option("--prepare", "fetch packages and models that this machine lacks")
    .option("--tasks <set>", "run these tasks and leave, such as 1,3-5,7")
    .option(
      "--share <part>",
      "begin with one of several balanced parts of all tasks, such as 3/16 (from 0)",
    )
    .option("--no-help", "with --share: leave tasks of other parts alone")
    .option("--generation <number>", "of a retry", "1")
    .action((run: string | undefined, options: WorkerOptions) => work(run, options, io));
}

async function work(run: string | undefined, options: WorkerOptions, io: CliIo): Promise<void> {
  const modes = [options.stdio, options.tasks, options.share].filter((mode) => mode !== undefined);
  if (modes.length > 1) {
    throw new SluiceError("USAGE", "give only one of --stdio, --tasks and --share");
  }
  if (!options.help && options.share === undefined) {
    throw new SluiceError("USAGE", "--no-help needs --share");
  }
  const redact = redactor(io.environment);
  const logger = textLogger((line) => void io.stderr.write(redact(line)));
  const context = engineContext(io, logger);
  const output = run === undefined ? undefined : await outputOf(run, io);
  const dependencies = runDependencies(io, logger, output?.store);
  const at = {
    ...{ dependencies, engineContext: context },
    ...(options.prepare && { prepare: await preparer(io, logger) }),
  };
  if (options.stdio) return workOverStdio(output?.path, options, at, io);
  if (!output) throw new SluiceError("USAGE", "name the run: sluice worker RUN …");
  const serving = { ...at, ...placeOf(output.path, generationOf(options)) };
  return join(serving, options, io);
}

async function join(
  serving: Omit<RunWorkerOptions, "channel">,
  options: WorkerOptions,
  io: CliIo,
): Promise<void> {
  const [{ joinRun }, { engineSteps, openWorkers }, { openProgress }, { backendContext }] =
    await Promise.all([
      import("../../run/worker/join-run.ts"),
      import("../../backends/registry.ts"),
      import("../../terminal/progress.ts"),
      import("../../api/backend-context.ts"),
    ]);
  const progress = openProgress({}, io);
  const { logger, onEvent } = progress;
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort(new SluiceError("RUN_CANCELED")));
  const { signal } = stop;
  const context = backendContext(io, logger);
  const { check } = engineSteps(context);
  try {
    const { tasks, share } = options;
    const isSuccess = await joinRun(serving, {
      ...{ tasks, share, help: options.help ? undefined : false, onEvent, logger, signal },
      check: (job) =>
        serving.prepare
          ? serving.prepare(job, (text) => logger.log("info", text))
          : check(job, { install: false, logger, signal }),
      // Like the pool of sluice run starts its own.
      startWorker: ({ job, generation }, directory, log, index) =>
        openWorkers({ ...context, logger: log }).start(directory, job, generation, index),
    });
    if (!isSuccess) io.setExitCode(exitCodes.failedRows);
  } finally {
    ignore();
    progress.close();
  }
}

/** Fetches on this machine what an engine needs, once for all workers here. */
async function preparer(io: CliIo, logger: Logger): Promise<RunWorkerOptions["prepare"]> {
  const [{ engineSteps }, { backendContext }] = await Promise.all([
    import("../../backends/registry.ts"),
    import("../../api/backend-context.ts"),
  ]);
  const { check, prepare } = engineSteps(backendContext(io, logger));
  return async (job, tell) => {
    const place = schedulerPlace(io.environment) ?? hostname();
    const preparation = {
      ...{ install: true, logger, signal: new AbortController().signal },
      onStep(step: Parameters<NonNullable<Preparation["onStep"]>>[0]) {
        if (step === undefined) return;
        if ("text" in step) return tell(`${place}: ${step.text}`);
        const { name, source, bytes, totalBytes } = step;
        // In quarters: each text becomes a line.
        const quarters = totalBytes ? Math.floor((4 * bytes) / totalBytes) : 0;
        const share = quarters > 0 ? `, ${25 * quarters} %` : "";
        tell(`${place}: fetching ${name} from ${source}${share}`);
      },
    };
    await check(job, preparation);
    await prepare(job, preparation);
  };
}

const placeOf = (output: string, generation: number) => ({
  location: locateRun(output),
  generation,
});

function generationOf({ generation }: WorkerOptions): number {
  const number = wholeNumber(generation);
  if (Number.isSafeInteger(number) && number > 0) return number;
  throw new SluiceError("USAGE", `--generation must be a number from 1, not "${generation}"`);
}

function leaveWith(error: SluiceError | undefined, io: CliIo): void {
  if (error) io.setExitCode(error.exitCode);
}

async function workOverStdio(
  output: string | undefined,
  options: WorkerOptions,
  at: Pick<RunWorkerOptions, "dependencies" | "engineContext" | "prepare">,
  io: CliIo,
): Promise<void> {
  // Ctrl-C reaches the whole group; the coordinator tells its workers what to do.
  const ignore = io.onSignal((signal) => {
    if (signal !== "SIGINT") io.stdin.destroy();
  });
  const { runWorker } = await import("../../run/worker/run-worker.ts");
  const channel = jsonLinesChannel<FromWorker, ToWorker>(io.stdin, io.stdout);
  try {
    if (output !== undefined) {
      const place = placeOf(output, generationOf(options));
      leaveWith(await runWorker({ ...at, ...place, channel }), io);
    } else {
      const opened = await untilRunOpen(channel);
      if (opened) {
        const { location, generation } = opened.run;
        const place = placeOf(absoluteLocation(io.workingDirectory, location), generation);
        leaveWith(await runWorker({ ...at, ...place, channel: opened.rest }), io);
      }
    }
  } finally {
    io.stdin.destroy();
    ignore();
  }
}
