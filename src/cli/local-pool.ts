import { availableParallelism, totalmem } from "node:os";
import { localBackend, type Machine } from "../backends/local/local.ts";
import { startWorkerProcess, workerEnvironment } from "../backends/local/worker-process.ts";
import { entryCommand } from "../entry.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Backend } from "../run/backend.ts";
import type { CliIo } from "./io.ts";

/** What this machine has. */
export function thisMachine(): Machine {
  return { cores: availableParallelism(), memoryBytes: totalmem() };
}

/** The pool of worker processes that `sluice run` starts. */
export function localPool(io: CliIo, logger: Logger): Backend {
  const [executable, main] = entryCommand("cli/main", io.process.executable);
  return localBackend({
    machine: thisMachine(),
    startWorker: async (location, job, generation) =>
      startWorkerProcess({
        executable: executable!,
        arguments: [main!, "worker", location, "--stdio", "--generation", String(generation)],
        environment: workerEnvironment(io.environment, job.env),
        logger,
      }),
  });
}
