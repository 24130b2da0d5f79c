import type { Command } from "commander";
import { backendContext } from "../../api/backend-context.ts";
import { openBackends } from "../../backends/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { textLogger } from "../../foundation/logger.ts";
import { quotedWord } from "../../foundation/shown-path.ts";
import { locateRun } from "../../run/directory/locate.ts";
import { type CliIo, type CommandCall, write } from "../io.ts";
import { declareJobOptions, type JobOptionValues, jobFromOptions } from "../job-options.ts";

/** `sluice render`: what `sluice run` would send to the scheduler of the job's backend. */
export function register(command: Command, io: CliIo, { args }: CommandCall): void {
  declareJobOptions(command, io, args)
    .option("--dev", "with backend sky: a machine like those of workers, to try things on")
    .action((_, options: JobOptionValues & { dev?: boolean }) => render(options, io));
}

async function render(options: JobOptionValues & { dev?: boolean }, io: CliIo): Promise<void> {
  const { job } = await jobFromOptions(options, io);
  const context = backendContext(
    io,
    textLogger((line) => void io.stderr.write(line)),
  );
  const { scheduled } = openBackends(context).of(job);
  if (!scheduled) {
    throw new SluiceError("UNSUPPORTED", `nothing is sent by backend: ${job.backend}`, {
      hint: "name a backend with a scheduler, such as --backend slurm",
    });
  }
  const { directory } = locateRun(job.output.path);
  const { text, command } = await scheduled.render(job, directory, options.dev);
  const sender = options.dev ? "start it" : "a run sends it";
  io.stderr.write(`${sender} by: ${command.map(quotedWord).join(" ")}\n`);
  await write(io, text);
}
