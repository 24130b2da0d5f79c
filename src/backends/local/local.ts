import { describeEngine } from "../../engines/registry.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import type { Backend, WorkersChoice } from "../../run/dispatch/backend.ts";
import type { WorkerHandle } from "../../run/dispatch/dispatch.ts";
import { dispatcherOf } from "../../run/dispatch/dispatcher-of.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { DeviceGroups } from "./device-pool.ts";

/** What the pool needs to know of a machine. */
export interface Machine {
  cores: number;
  memoryBytes: number;
  freeMemoryBytes?: number;
}

export interface LocalBackendOptions extends Partial<Pick<Backend, "check" | "prepare">> {
  machine: Machine;
  /** The GPUs of each worker of a job; default: none are assigned. */
  groupsFor?(job: JobSpec): Promise<DeviceGroups>;
  /** Starts one worker on a run directory; `index` is its number in the pool, from 0. */
  startWorker(
    location: string,
    job: JobSpec,
    generation: number,
    index: number,
  ): Promise<WorkerHandle>;
}

const noDevices: DeviceGroups = { groups: [], notices: [] };

/** Rows for which one more worker pays, if the engine is not the bottleneck. */
const rowsPerWorker = 100_000;

/** A pool of worker processes on this machine; each gets tasks as it has room. */
export function localBackend(options: LocalBackendOptions): Backend {
  const { machine, groupsFor, startWorker } = options;
  const { check = async () => {}, prepare = async () => {} } = options;
  return {
    ...{ name: "local", check, prepare },
    workersFor: async (job, rows) => localWorkers(job, rows, machine, await groupsFor?.(job)),
    run: (run) =>
      dispatcherOf(run, (index) =>
        startWorker(run.location, run.job, run.context.plan.generation, index),
      ).run(),
  };
}

/**
 * The number of workers on this machine. A model on GPUs gets exactly one for each group of them; a
 * model on the processor uses all cores alone. With a server or a fast engine, the work is reading
 * and writing, and one more worker pays for each 100,000 rows, up to the number of cores.
 * `workers.max` is the number itself, if it is set; GPUs, `cpu` and `memory` can only lower it.
 */
export function localWorkers(
  job: JobSpec,
  rows: number,
  machine: Machine,
  { groups, notices: ofDevices }: DeviceGroups = noDevices,
): WorkersChoice {
  const { max, cpu, memory } = job.workers;
  const notices = [...ofDevices];
  let workers = max ?? (groups.length || workersByEngine(job, rows, machine));
  const programs = programsOf(job);
  if (groups.length > 0 && workers > groups.length) {
    const key = programs === undefined ? `workers.max: ${max}` : "--max-scale";
    notices.push(`${key}: this machine has GPUs for ${groups.length * (programs ?? 1)}`);
    workers = groups.length;
  }
  const fits: [key: string, workers: number][] = [];
  if (cpu !== undefined) fits.push([`cpu: ${cpu}`, Math.floor(machine.cores / cpu)]);
  if (memory !== undefined) {
    fits.push([`memory: ${memory}`, Math.floor(machine.memoryBytes / parseMemory(memory))]);
  }
  for (const [asked, fitting] of fits) {
    if (fitting >= workers) continue;
    const given = Math.max(1, fitting);
    if (programs === undefined) {
      notices.push(
        fitting === 0
          ? `this machine has less than one worker asks for (workers.${asked}); one is started`
          : `workers.${asked} allows ${given} of ${workers} workers on this machine`,
      );
    } else if (fitting === 0) {
      notices.push(
        `this machine has less than a program books (--${asked.replace(":", "")}); one runs at a time`,
      );
    } else if (rows > given * programs) {
      const most = `${given * programs} of ${workers * programs} programs`;
      notices.push(`--${asked.split(":")[0]} allows ${most} side by side on this machine`);
    }
    workers = given;
  }
  const { cores, freeMemoryBytes: free } = machine;
  return {
    ...{ workers, notices },
    cores: Math.max(1, Math.floor(cores / workers)),
    ...(free !== undefined && { freeMemoryBytes: Math.floor(free / workers) }),
  };
}

/** Programs of each worker in a fleet, whose bookings are flags. */
function programsOf({ model }: JobSpec): number | undefined {
  return model.engine === "program" ? model.instances : undefined;
}

function workersByEngine({ model }: JobSpec, rows: number, { cores }: Machine): number {
  if (describeEngine(model).usesAllCores) return 1;
  return Math.min(cores, Math.max(1, Math.ceil(rows / rowsPerWorker)));
}
