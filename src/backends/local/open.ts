import { getCompileCacheDir } from "node:module";
import { availableParallelism, freemem, totalmem } from "node:os";
import { dirname } from "node:path";
import { entryCommand } from "../../entry.ts";
import { lazily } from "../../foundation/lazily.ts";
import { limits } from "../../foundation/limits.ts";
import type { Backend } from "../../run/dispatch/backend.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { RunWorkerOptions } from "../../run/worker/run-worker.ts";
import type { BackendContext, OpenBackend } from "../context.ts";
import type { DevicePool } from "./device-pool.ts";
import { engineSteps } from "./engine-steps.ts";
import type { LocalBackendOptions, Machine } from "./local.ts";
import { WorkerStarter } from "./worker-process.ts";

// A worker starts before anything is loaded that only a run needs: then both load at once, side by
// side. So the rest is imported by the first call that needs it.

export { workerEnvironment } from "./worker-process.ts";

/** The GPUs of this machine, as workers get them. */
export async function deviceShares(
  environment: BackendContext["environment"],
): Promise<DeviceShares> {
  const { DevicePool } = await import("./device-pool.ts");
  return new DevicePool(environment);
}

/** Gives copies of models the GPUs of this machine that fewest others have. */
export type DeviceShares = Pick<DevicePool, "lease">;

export function thisMachine(): Required<Machine> {
  return {
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    freeMemoryBytes: freemem(),
  };
}

/** A pool of worker processes on this machine. */
export function openLocal(context: BackendContext): OpenBackend {
  const { starter, groupsFor, start } = openWorkers(context);
  return {
    ...pool(context, { groupsFor, startWorker: start }),
    startAhead: () => starter.startAhead(),
    close: () => starter.close(),
  };
}

/**
 * One worker in this process, for jobs with functions of this program, or with an engine of it.
 *
 * @param contextOf the worker's context: its engine has the functions, which no other process can
 *   have.
 */
export function openInside(
  context: BackendContext,
  contextOf: (
    job: JobSpec,
  ) => Pick<RunWorkerOptions, "dependencies" | "engineContext" | "openEngine">,
): OpenBackend {
  const { groupsFor } = openWorkers(context);
  const backend = pool(context, {
    // All GPUs belong to this process; missing ones are reported here too.
    async groupsFor(job) {
      const { groups, notices } = await groupsFor(job);
      return { groups: [], notices: groups.length === 0 ? notices : [] };
    },
    async startWorker(location, job, generation) {
      const [{ workerInside }, { locateRun }] = await Promise.all([
        import("../../run/worker/run-worker.ts"),
        import("../../run/directory/locate.ts"),
      ]);
      return workerInside({ location: locateRun(location), generation, ...contextOf(job) });
    },
  });
  return {
    ...backend,
    workersFor: async (job, rows) => ({ ...(await backend.workersFor(job, rows)), workers: 1 }),
    startAhead() {},
    close() {},
  };
}

function pool(
  context: BackendContext,
  options: Pick<LocalBackendOptions, "groupsFor" | "startWorker">,
): Backend {
  const backend = lazily(async () => {
    const { localBackend } = await import("./local.ts");
    return localBackend({ machine: thisMachine(), ...options });
  });
  const { check, prepare } = engineSteps(context);
  return {
    ...{ name: "local", check, prepare },
    workersFor: async (job, rows) => (await backend()).workersFor(job, rows),
    run: async (run) => (await backend()).run(run),
  };
}

type WorkersContext = Omit<BackendContext, "engineContext">;

/** Starts worker processes on this machine, each with its own GPUs if its engine uses any. */
export function openWorkers(context: WorkersContext) {
  const starter = openStarter(context);
  const devices = lazily(async () => {
    const { DevicePool } = await import("./device-pool.ts");
    return new DevicePool(context.environment);
  });
  return {
    starter,
    groupsFor: async (job: JobSpec) => (await devices()).groupsFor(job),
    async start(location: string, job: JobSpec, generation: number, index: number) {
      const own = await (await devices()).environmentFor(job, index);
      return starter.start(location, job, generation, own);
    },
  };
}

function openStarter({ executable, environment, logger }: WorkersContext): WorkerStarter {
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
