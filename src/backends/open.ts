import { availableParallelism, totalmem } from "node:os";
import { entryCommand } from "../entry.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Backend } from "../run/backend.ts";
import { localBackend } from "./local/local.ts";
import { startWorkerProcess, workerEnvironment } from "./local/worker-process.ts";

/** What a backend may use of the process that coordinates a run. */
export interface BackendContext {
  /** The Node that runs workers. */
  executable: string;
  /** Workers get it, with the job's `env`. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Gets the log lines of workers. */
  logger: Logger;
}

/** The backend that a job names. `local` is a pool of worker processes on this machine. */
export function openBackend(_name: "local", context: BackendContext): Backend {
  const { executable, environment, logger } = context;
  const [node, main] = entryCommand("cli/main", executable);
  return localBackend({
    machine: { cores: availableParallelism(), memoryBytes: totalmem() },
    startWorker: async (location, job, generation) =>
      startWorkerProcess({
        executable: node!,
        arguments: [main!, "worker", location, "--stdio", "--generation", String(generation)],
        environment: workerEnvironment(environment, job.env),
        logger,
      }),
  });
}
