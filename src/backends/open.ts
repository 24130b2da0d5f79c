import { getCompileCacheDir } from "node:module";
import { availableParallelism, freemem, totalmem } from "node:os";
import { dirname } from "node:path";
import { entryCommand } from "../entry.ts";
import { lazily } from "../foundation/lazily.ts";
import { limits } from "../foundation/limits.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Backend } from "../run/dispatch/backend.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { InsideWorkerContext } from "./local/inside-worker.ts";
import type { LocalBackendOptions, Machine } from "./local/local.ts";
import { WorkerStarter } from "./local/worker-starter.ts";

// A worker is started ahead before anything is loaded that only a run needs: both load it at once
// then, side by side. So the rest is imported by the first call that needs it.

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
  const { starter, groupsFor, start } = openWorkers(context);
  return {
    ...pool({ groupsFor, startWorker: start }),
    startAhead: () => starter.startAhead(),
    close: () => starter.close(),
  };
}

/** One worker in this process, for jobs with functions of this program. */
export function openInsideBackend(
  context: BackendContext,
  contextOf: (job: JobSpec) => InsideWorkerContext,
): OpenBackend {
  const { groupsFor } = openWorkers(context);
  const backend = pool({
    // All GPUs are this process's; what is to be said where there are none is said here too.
    async groupsFor(job) {
      const { groups, notices } = await groupsFor(job);
      return { groups: [], notices: groups.length === 0 ? notices : [] };
    },
    async startWorker(location, job, generation) {
      const { startInsideWorker } = await import("./local/inside-worker.ts");
      return startInsideWorker(location, generation, contextOf(job));
    },
  });
  return {
    ...backend,
    workersFor: async (job, rows) => ({ ...(await backend.workersFor(job, rows)), workers: 1 }),
    startAhead() {},
    close() {},
  };
}

function pool(options: Pick<LocalBackendOptions, "groupsFor" | "startWorker">): Backend {
  const backend = lazily(async () => {
    const { localBackend } = await import("./local/local.ts");
    return localBackend({ machine: thisMachine(), ...options });
  });
  return {
    name: "local",
    workersFor: async (job, rows) => (await backend()).workersFor(job, rows),
    run: async (run) => (await backend()).run(run),
  };
}

/** Starts worker processes of this machine, each with GPUs of its own where its engine has some. */
export function openWorkers(context: BackendContext) {
  const starter = openStarter(context);
  const devices = lazily(async () => {
    const { DevicePool } = await import("./local/device-pool.ts");
    return new DevicePool(context.environment);
  });
  return {
    starter,
    groupsFor: async (job: JobSpec) => (await devices()).groupsFor(job),
    async start(location: string, job: JobSpec, generation: number, slot: number) {
      const own = await (await devices()).environmentFor(job, slot);
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
