import { dirname } from "node:path";
import type { Command } from "commander";
import { backendContext } from "../../api/backend-context.ts";
import type { StartOptions } from "../../api/start-run.ts";
import type { OpenBackend } from "../../backends/context.ts";
import { type OpenBackends, openBackends } from "../../backends/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { RunDependencies } from "../../run/dependencies.ts";
import { hasDefaultBackend } from "../../run/job/backend-name.ts";
import type { LoadedJob } from "../../run/job/load.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { RunSummary } from "../../run/status/events.ts";
import { openProgress, type Progress } from "../../terminal/progress.ts";
import { type CliIo, type CommandCall, write } from "../io.ts";
import { declareJobOptions, type JobOptionValues, jobFromOptions } from "../job-options.ts";
import { report } from "../report.ts";
import { type EndedCall, endCall, interruptionOf, startOptions } from "../run-call.ts";
import { untilSignal } from "../until-signal.ts";
import { wholeNumber } from "../whole-number.ts";

/** Options of `sluice run` that are not part of the job. */
export interface RunFlags {
  overwrite?: boolean;
  fork?: boolean;
  extend?: boolean;
  detach?: boolean;
  install: boolean;
  json?: boolean;
  quiet?: boolean;
  show?: string | boolean;
}

const defaultShownRows = 3;

/** `sluice run`: the main job. */
export function register(command: Command, io: CliIo, { args }: CommandCall): void {
  declareRunOptions(command, io, args).action((_, options: RunFlags & JobOptionValues) =>
    run(options, io),
  );
}

/** Declares the options of `sluice run`: all of them, or only the job keys in `args`. */
export function declareRunOptions(
  command: Command,
  io: CliIo,
  args: readonly string[] | undefined,
): Command {
  return declareJobOptions(command, io, args)
    .option("--overwrite", "replace the run in the output")
    .option("--fork", "write beside the output, if a run of another job is there")
    .option("--extend", "process rows that were appended to the input of a finished run")
    .option("--detach", "submit to the scheduler of the backend, and leave")
    .option("--no-install", "fetch neither engine packages nor models")
    .option("--show [rows]", `print the first answers when done; default ${defaultShownRows}`)
    .option("--json", "progress and the summary as JSON lines")
    .option("--quiet", "no progress");
}

/** Finds the job of a command, and prints notices about how it was read. */
export type ReadJob = (
  options: RunFlags & JobOptionValues,
  io: CliIo,
  notice: (message: string) => void,
) => Promise<Pick<LoadedJob, "job" | "originOf">>;

/**
 * Carries out a job, with progress on stderr and the summary as the last line of stdout; with
 * `--report` that line is the report.
 */
export async function run(
  options: RunFlags & JobOptionValues,
  io: CliIo,
  readJob: ReadJob = (options, io) => jobFromOptions(options, io),
): Promise<void> {
  const shownRows = shownRowsOf(options);
  const progress = openProgress(options, io);
  const backends = openBackends(backendContext(io, progress.logger));
  try {
    // A worker starts in about the time in which a job is read and planned: the code for that is
    // loaded after this, while the worker starts.
    const { environment, workingDirectory } = io;
    const isLocal = await hasDefaultBackend({
      ...{ environment, workingDirectory, file: options.config as string | undefined },
      sets: (options.set as readonly string[] | undefined) ?? [],
      flags: { backend: options.backend as string | undefined },
    });
    if (isLocal) backends.of({ backend: "local" }).startAhead();
    await runJobOf(options, io, progress, { backends, readJob, shownRows });
  } finally {
    backends.close();
  }
}

function shownRowsOf({ show }: RunFlags): number {
  if (show === undefined || show === false) return 0;
  const rows = show === true ? defaultShownRows : wholeNumber(show);
  if (Number.isSafeInteger(rows) && rows >= 0) return rows;
  throw new SluiceError("USAGE", `--show must be a number of rows, not "${show}"`, {
    hint: `write the job file before it, or --show=${defaultShownRows}`,
  });
}

async function runJobOf(
  options: RunFlags & JobOptionValues,
  io: CliIo,
  progress: Progress,
  { backends, readJob, shownRows }: { backends: OpenBackends; readJob: ReadJob; shownRows: number },
): Promise<void> {
  const notice = (message: string) => progress.onEvent({ type: "notice", message });
  const { job: loaded, originOf } = await readJob(options, io, notice);
  const backend = backends.of(loaded);
  if (options.detach && !backend.scheduled) {
    throw new SluiceError("UNSUPPORTED", `--detach with backend: ${backend.name}`, {
      hint: "its workers end with this process; name a scheduler, such as --backend slurm",
    });
  }
  backend.startAhead(loaded);
  const { runDependencies } = await import("../../api/run-dependencies.ts");
  const dependencies = runDependencies(io, progress.logger, loaded.store);
  let ended: EndedCall;
  try {
    const { withStdin } = await import("../spool.ts");
    ended = await withStdin(loaded, dependencies, io, (job) =>
      startJob(job, dependencies, { ...options, backendOf: backends.of }, io, progress, backend),
    );
  } catch (error) {
    const { withJobLine } = await import("../../run/job/problem.ts");
    throw withJobLine(error, originOf);
  } finally {
    progress.close();
  }
  const { result, exitCode } = ended;
  const { output, sealed } = result.summary;
  if (shownRows > 0 && sealed) {
    const { showAnswers } = await import("../show-answers.ts");
    await showAnswers(output, loaded, shownRows, io);
  }
  if (!sealed || options.report === undefined) {
    return await endCall({ result, exitCode }, { dependencies }, options, io);
  }
  if (result.error) report(result.error, io);
  await printReport(result.summary, dependencies, io);
  io.setExitCode(exitCode ?? result.exitCode);
}

/** Prints the report of a sealed run, which is one line, in pieces of limited size. */
async function printReport(
  { manifest }: RunSummary,
  dependencies: RunDependencies,
  io: CliIo,
): Promise<void> {
  const [{ reportPath }, { fileChunks }] = await Promise.all([
    import("../../run/directory/layout.ts"),
    import("../../run/directory/lines.ts"),
  ]);
  const storage = dependencies.openStorage(dirname(manifest!));
  for await (const chunk of fileChunks(storage, reportPath, io.outputClosed)) {
    await write(io, chunk);
  }
}

async function startJob(
  job: JobSpec,
  dependencies: RunDependencies,
  options: RunFlags & Pick<StartOptions, "backendOf">,
  io: CliIo,
  progress: Progress,
  backend: OpenBackend,
) {
  const { startRun } = await import("../../api/start-run.ts");
  const { overwrite = false, fork = false, extend = false, detach: isDetached = false } = options;
  return untilSignal(
    io,
    progress.logger,
    (signal, listen) => {
      // The job goes on elsewhere from its submission on.
      if (backend.delegate) listen();
      return startRun(
        { kind: "job", job, overwrite, fork, extend },
        startOptions({ ...options, dependencies, signal, isDetached }, progress, listen),
      );
    },
    backend.scheduled && interruptionOf(backend, progress.logger),
  );
}
