import { resolve } from "node:path";
import type { Command } from "commander";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { textLogger } from "../../foundation/logger.ts";
import { locateRun } from "../../run/locate.ts";
import type { FromWorker, ToWorker } from "../../run/worker/protocol.ts";
import type { CliIo } from "../io.ts";
import { engineContext, runDependencies } from "../run-dependencies.ts";

interface WorkerOptions {
  stdio?: boolean;
  tasks?: string;
  share?: string;
  generation: string;
}

/** `sluice worker RUN --stdio | --tasks 1,3-5 | --share 3/16`. */
export function register(command: Command, io: CliIo): void {
  command
    .argument("<run>", "the run directory, or the results file")
    .option("--stdio", "obey JSON lines on stdin; docs/worker-contract.md has them")
    .option("--tasks <set>", "run these tasks and leave, as 1,3-5,7")
    .option("--share <part>", "run one of several balanced parts of all tasks, as 3/16 (from 0)")
    .option("--generation <number>", "of a retry", "1")
    .action((run: string, options: WorkerOptions) => work(run, options, io));
}

async function work(run: string, options: WorkerOptions, io: CliIo): Promise<void> {
  const modes = [options.stdio, options.tasks, options.share].filter((mode) => mode !== undefined);
  if (modes.length !== 1) {
    throw new SluiceError("USAGE", "give exactly one of --stdio, --tasks and --share");
  }
  const logger = textLogger((line) => void io.stderr.write(line));
  const serving = {
    location: locateRun(resolve(io.workingDirectory, run)),
    generation: Number(options.generation),
    dependencies: runDependencies(io, logger),
    engineContext: engineContext(io, logger),
  };
  if (!options.stdio) {
    const { workOnTasks } = await import("../static-worker.ts");
    return workOnTasks(serving, options, io);
  }
  const { serveWorker } = await import("../../run/worker/serve.ts");
  // Ctrl-C reaches the whole group; the coordinator tells its workers what to do.
  const ignore = io.onSignal((signal) => {
    if (signal !== "SIGINT") io.stdin.destroy();
  });
  const channel = jsonLinesChannel<FromWorker, ToWorker>(io.stdin, io.stdout);
  await serveWorker({ ...serving, channel });
  io.stdin.destroy();
  ignore();
}
