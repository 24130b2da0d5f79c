import { type OpenBackend, openBackend, openWorkers } from "../backends/open.ts";
import type { Logger } from "../foundation/logger.ts";
import type { StartFixedWorker } from "../run/worker/fixed-tasks.ts";
import type { CliIo } from "./io.ts";

/** The pool of worker processes that `sluice run` starts. */
export function localPool({ environment, process }: CliIo, logger: Logger): OpenBackend {
  return openBackend("local", { executable: process.executable, environment, logger });
}

/** How `sluice worker --tasks` starts the process that does its work: as the pool does. */
export function processOf({ environment, process }: CliIo): StartFixedWorker {
  const { executable } = process;
  return ({ job, generation }, directory, logger, index) =>
    openWorkers({ executable, environment, logger }).start(directory, job, generation, index);
}
