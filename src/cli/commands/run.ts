import type { Command } from "commander";
import { engineContext, runDependencies } from "../../api/run-dependencies.ts";
import type { Backend } from "../../run/backend.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { runJob } from "../../run/run-job.ts";
import { type CliIo, write } from "../io.ts";
import { declareJobOptions, type JobOptionValues, jobFromOptions } from "../job-options.ts";
import { localPool } from "../local-pool.ts";
import { type Progress, progressMode, showProgress } from "../progress.ts";
import { report } from "../report.ts";
import { untilSignal } from "../until-signal.ts";

interface RunOptions {
  overwrite?: boolean;
  fork?: boolean;
  install: boolean;
  json?: boolean;
  quiet?: boolean;
  show?: string | boolean;
}

const defaultShownRows = 3;

/** `sluice run`: the main job. */
export function register(command: Command, io: CliIo): void {
  declareJobOptions(command)
    .option("--overwrite", "replace the run that the output holds")
    .option("--fork", "write beside the output, if it holds a run of another job")
    .option("--no-install", "fetch neither engine packages nor models")
    .option("--show [rows]", `print the first answers when done; default ${defaultShownRows}`)
    .option("--json", "progress as JSON lines on stderr")
    .option("--quiet", "no progress")
    .action((options: RunOptions & JobOptionValues) => run(options, io));
}

async function run(options: RunOptions & JobOptionValues, io: CliIo): Promise<void> {
  const { stderr: stream, clock } = io;
  const mode = progressMode(options, io.isTerminal);
  const progress = showProgress({ mode, stream, columns: io.columns, clock });
  const backend = localPool(io, progress.logger);
  // A worker takes as long to start as a job takes to be read and planned.
  backend.startAhead();
  try {
    await runJobOf(options, io, progress, backend);
  } finally {
    backend.close();
  }
}

async function runJobOf(
  options: RunOptions & JobOptionValues,
  io: CliIo,
  progress: Progress,
  backend: Backend,
): Promise<void> {
  const { job: asked } = await jobFromOptions(options, io);
  const dependencies = runDependencies(io, progress.logger);
  let ended: Awaited<ReturnType<typeof carryOut>>;
  try {
    const { spoolStdin } = await import("../spool.ts");
    const job = await spoolStdin(asked, dependencies, io);
    ended = await carryOut(job, dependencies, { ...options, backend }, io, progress);
  } finally {
    progress.close();
  }
  const { result, exitCode } = ended;
  if (result.wasSealed) {
    io.stderr.write(`this run is sealed, there is nothing to do: ${result.summary.output}\n`);
  }
  if (options.show && result.summary.sealed) {
    const { showAnswers } = await import("../show-answers.ts");
    const rows = options.show === true ? defaultShownRows : Number(options.show);
    await showAnswers(result.summary.output, asked, rows, io);
  }
  if (result.error) report(result.error, io);
  await write(io, `${JSON.stringify(result.summary)}\n`);
  io.setExitCode(exitCode ?? result.exitCode);
}

function carryOut(
  job: JobSpec,
  dependencies: ReturnType<typeof runDependencies>,
  options: RunOptions & { backend: Backend },
  io: CliIo,
  progress: Progress,
) {
  return untilSignal(io, progress.logger, (signal) =>
    runJob(job, dependencies, {
      backend: options.backend,
      overwrite: options.overwrite ?? false,
      fork: options.fork ?? false,
      prepare: async (present) => {
        const { prepareEngine } = await import("../prepare-engine.ts");
        const context = { ...engineContext(io, progress.logger), signal };
        await prepareEngine(present, context, io, options.install);
      },
      onEvent: progress.onEvent,
      signal,
    }),
  );
}
