import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import type { Environment } from "../foundation/subprocess.ts";
import { assignedDevices, visibilityOf, visibilityVariables } from "./devices.ts";
import type { DeviceOptions } from "./engine-description.ts";

/** A job's settings for the replicas of a model, each a separate process. */
export interface ReplicaOptions {
  /** Replicas of each worker; default 1. */
  replicas?: number | undefined;
  /** CPU threads of each replica. */
  threads?: number | undefined;
  /** GPUs, by number or name, or all of the machine's; default: none. */
  devices?: "all" | readonly (number | string)[] | undefined;
}

/** Variables that set the number of threads of the usual libraries. */
const threadVariables = [
  "OMP_NUM_THREADS",
  "MKL_NUM_THREADS",
  "OPENBLAS_NUM_THREADS",
  "VECLIB_MAXIMUM_THREADS",
  "NUMEXPR_NUM_THREADS",
  "RAYON_NUM_THREADS",
] as const;

/** A replica's share of the machine. */
export interface ReplicaShare {
  /** Variables of its process besides those of its worker. */
  environment: Readonly<Record<string, string>>;
  /** Its GPUs by the driver's names; empty on the processor. */
  devices: readonly string[];
}

/**
 * Divides a worker's share among the replicas of its model: GPUs in order, at least one each, and
 * threads. Variables that are already set stay unchanged, except those that show GPUs.
 *
 * @param environment that of the worker.
 * @throws SluiceError `JOB_INVALID` for more replicas than GPUs, or if there are none and the job
 *   wants all.
 * @example
 * const [, second] = shareAmongReplicas({ replicas: 2, devices: [0, 3] }, {});
 * second.environment.CUDA_VISIBLE_DEVICES; // "3"
 */
export function shareAmongReplicas(
  options: ReplicaOptions,
  environment: Environment,
): ReplicaShare[] {
  const { replicas = 1, threads } = options;
  const devices = devicesOfWorker(options, environment);
  if (devices.length > 0) assertEnoughDevices(replicas, devices.length);
  const each = Math.floor(devices.length / replicas);
  return Array.from({ length: replicas }, (_, replica) => {
    const own = devices.slice(replica * each, (replica + 1) * each);
    return {
      environment: {
        ...threadEnvironment(threads, environment),
        ...(own.length > 0 && visibilityOf(own)),
      },
      devices: own,
    };
  });
}

/**
 * What opens side by side, such as replicas.
 *
 * @throws the reason of the first that cannot be opened, when the others are closed.
 */
export async function allOpened<Opened extends { close(): Promise<void> }>(
  opening: readonly Promise<Opened>[],
): Promise<Opened[]> {
  const ends = await Promise.allSettled(opening);
  const failed = ends.find((each) => each.status === "rejected");
  const opened = ends.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  if (failed === undefined) return opened;
  await Promise.all(opened.map((each) => each.close()));
  throw failed.reason;
}

/**
 * Threads of each replica, so that together they use no more than the cores.
 *
 * @param cores those of the worker, if known.
 */
export function threadsOfReplica(
  { replicas = 1, threads }: ReplicaOptions,
  cores: number | undefined,
): number | undefined {
  if (threads !== undefined || cores === undefined) return threads;
  return Math.max(1, Math.floor(cores / replicas));
}

/**
 * Notices about the replicas of a worker.
 *
 * @param cores those of the worker, if known.
 */
function replicaNotices(
  { replicas = 1, threads = 1 }: ReplicaOptions,
  cores: number | undefined,
): string[] {
  const wanted = replicas * threads;
  if (cores === undefined || wanted <= cores) return [];
  const has = counted(cores, "core");
  const asked = `${counted(replicas, "replica")} of ${counted(threads, "thread")}`;
  return [`${asked} each share ${has} of a worker: fewer of either are faster`];
}

/** A number with its noun: `1 core`, `2 cores`. */
export function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}

/** The GPUs of a worker's replicas; undefined if they use none. */
export function replicaDevices({
  devices,
  replicas = 1,
}: ReplicaOptions): DeviceOptions | undefined {
  if (devices === undefined) return undefined;
  return { perWorker: replicas, ...(devices !== "all" && { devices }) };
}

/** What is known of every engine whose model has replicas. */
export const withReplicas = {
  takesRows: true,
  usesAllCores: true,
  devices: replicaDevices,
  notices: replicaNotices,
  /** Longest time of a worker until all replicas are loaded. */
  readyTimeoutMs: ({ loadTimeoutMs }: { loadTimeoutMs: number }): number =>
    limits.workerReadyTimeoutMs + loadTimeoutMs,
  sharedAmong: <Options extends ReplicaOptions>(options: Options, _: number, cores?: number) => ({
    ...options,
    threads: threadsOfReplica(options, cores),
  }),
};

/** False if the job names fewer GPUs than replicas. */
export function hasEnoughDevices({ devices, replicas = 1 }: ReplicaOptions): boolean {
  return devices === undefined || devices === "all" || replicas <= devices.length;
}

function assertEnoughDevices(replicas: number, devices: number): void {
  if (replicas <= devices) return;
  const gpus = devices === 1 ? "there is 1" : `there are ${devices}`;
  throw new SluiceError("JOB_INVALID", `${replicas} replicas need as many GPUs, and ${gpus}`, {
    field: "model.replicas",
    hint: "lower model.replicas, name more in model.devices, or leave devices out to use none",
  });
}

function devicesOfWorker({ devices }: ReplicaOptions, environment: Environment): string[] {
  if (devices === undefined) return [];
  if (assignedDevices(environment) !== undefined) {
    return (environment[visibilityVariables[0]] ?? "").split(",").filter(Boolean);
  }
  if (devices !== "all") return devices.map(String);
  throw new SluiceError("JOB_INVALID", "model.devices: all, and this machine shows no GPU", {
    field: "model.devices",
    hint:
      "sluice doctor says why; name GPUs that nvidia-smi does not list, as devices: [0], or leave " +
      "devices out to compute without",
  });
}

function threadEnvironment(
  threads: number | undefined,
  environment: Environment,
): Record<string, string> {
  if (threads === undefined) return {};
  const unset = threadVariables.filter((name) => environment[name] === undefined);
  return Object.fromEntries(unset.map((name) => [name, String(threads)]));
}
