import { getCompileCacheDir } from "node:module";
import { availableParallelism, freemem, totalmem } from "node:os";
import { dirname } from "node:path";
import { entryCommand } from "../entry.ts";
import { limits } from "../foundation/limits.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Backend } from "../run/backend.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { DevicePool } from "./local/device-pool.ts";
import { type InsideWorkerContext, startInsideWorker } from "./local/inside-worker.ts";
import { localBackend, type Machine } from "./local/local.ts";
import { WorkerStarter } from "./local/worker-starter.ts";

/** Bytes of a size such as `120G`. */
export { parseMemory } from "./local/local.ts";
/** The environment that workers get. */
export { workerEnvironment } from "./local/worker-process.ts";

/** What a backend may use of the process that coordinates a run. */
export interface BackendContext {
  /** The Node that runs workers. */
  executable: string;
  /** Workers get it, with the job's `env`. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Gets the log lines of workers. */
  logger: Logger;
}

/** A backend, and what it may do before and after it has a run. */
export interface OpenBackend extends Backend {
  /** Starts what takes time and needs no run; for a caller that is about to open one. */
  startAhead(): void;
  /** Ends what was started ahead and not used. */
  close(): void;
}

/** What this machine has. */
export function thisMachine(): Required<Machine> {
  return {
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    freeMemoryBytes: freemem(),
  };
}

/** The backend that a job names. `local` is a pool of worker processes on this machine. */
export function openBackend(_name: "local", context: BackendContext): OpenBackend {
  const workers = openWorkers(context);
  const backend = localBackend({
    machine: thisMachine(),
    groupsFor: (job) => workers.devices.groupsFor(job),
    startWorker: workers.start,
  });
  return {
    ...backend,
    startAhead: () => workers.starter.startAhead(),
    close: () => workers.starter.close(),
  };
}

/** One worker in this process, for jobs with functions of this program. */
export function openInsideBackend(contextOf: (job: JobSpec) => InsideWorkerContext): OpenBackend {
  const backend = localBackend({
    machine: thisMachine(),
    startWorker: async (location, job, generation) =>
      startInsideWorker(location, generation, contextOf(job)),
  });
  return {
    ...backend,
    workersFor: async (job, rows) => ({ ...(await backend.workersFor(job, rows)), workers: 1 }),
    startAhead() {},
    close() {},
  };
}

/** Starts worker processes of this machine, each with GPUs of its own where its engine has some. */
export function openWorkers(context: BackendContext) {
  const starter = openStarter(context);
  const devices = new DevicePool(context.environment);
  return {
    starter,
    devices,
    async start(location: string, job: JobSpec, generation: number, slot: number) {
      const own = await devices.environmentFor(job, slot);
      return starter.start(location, job, generation, own);
    },
  };
}

function openStarter({ executable, environment, logger }: BackendContext): WorkerStarter {
  const [node, ...main] = entryCommand("cli/main", executable);
  return new WorkerStarter({
    command: [node!, `--max-semi-space-size=${limits.maxYoungSpaceMegabytes}`, ...main],
    environment: { ...compileCache(), ...environment },
    logger,
  });
}

/** Workers keep compiled code where this process does; Node adds the folder of its version. */
function compileCache(): Record<string, string> {
  const directory = getCompileCacheDir?.();
  return directory === undefined ? {} : { NODE_COMPILE_CACHE: dirname(directory) };
}
