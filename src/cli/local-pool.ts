import { type OpenBackend, openBackend, openWorkers } from "../backends/open.ts";
import type { Logger } from "../foundation/logger.ts";
import type { CliIo } from "./io.ts";
import type { StartStaticWorker } from "./static-worker.ts";

/** The pool of worker processes that `sluice run` starts. */
export function localPool({ environment, process }: CliIo, logger: Logger): OpenBackend {
  return openBackend("local", { executable: process.executable, environment, logger });
}

/** How `sluice worker --tasks` starts the process that does its work: as the pool does. */
export function processOf({ environment, process }: CliIo): StartStaticWorker {
  const { executable } = process;
  return ({ job, generation }, directory, logger, slot) =>
    openWorkers({ executable, environment, logger }).start(directory, job, generation, slot);
}
