import {
  assignedEnvironment,
  type Device,
  type DeviceListing,
  findDevice,
  listDevices,
  mainFirst,
  shownDevices,
} from "../../engines/devices.ts";
import { describeEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Environment } from "../../foundation/subprocess.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { workerEnvironment } from "./worker-process.ts";

/** The GPUs of a machine, as the workers of a job get them. */
export interface DeviceGroups {
  /** Those of each worker, the main one first; empty if GPUs are not assigned. */
  groups: Device[][];
  notices: string[];
}

/** What decides which GPUs a worker gets. */
export interface DeviceUser extends Pick<JobSpec, "model" | "env"> {
  workers: Pick<JobSpec["workers"], "gpu">;
  /** One worker has all of them, unless its model needs another number. Default: false. */
  takesAll?: boolean;
}

/** Devices of one user, until they are given back. */
export interface DeviceLease {
  devices: readonly Device[];
  /** The variables that show it these devices, and no others. */
  environment: Record<string, string>;
  /** As of `DeviceGroups`. */
  notices: readonly string[];
  release(): void;
}

/** Gives each worker of this machine GPUs of its own. The machine is examined once. */
export class DevicePool {
  readonly #environment: Environment;
  #listing: Promise<DeviceListing> | undefined;
  /** The number of leases of each device, by its UUID. */
  readonly #leases = new Map<string, number>();

  /** @param environment that of the workers, without the job's `env`. */
  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** @throws SluiceError as `groupDevices`. */
  async groupsFor(job: DeviceUser): Promise<DeviceGroups> {
    const { gpu } = job.workers;
    if (describeEngine(job.model).devices?.(job.model) === undefined) {
      const notice = `workers.gpu: ${gpu} is not used: the model computes on no GPU of this machine`;
      return { groups: [], notices: gpu === undefined ? [] : [notice] };
    }
    this.#listing ??= listDevices(this.#environment);
    const { devices, problem } = await this.#listing;
    const shown = shownDevices(devices, workerEnvironment(this.#environment, job.env));
    const grouped = groupDevices(job, shown);
    if (problem === undefined) return grouped;
    return { ...grouped, notices: [`GPUs are not given out (${problem})`, ...grouped.notices] };
  }

  /**
   * The variables that give a worker its devices, the same each time it starts.
   *
   * @param index number of the worker on this machine, from 0.
   */
  async environmentFor(job: DeviceUser, index: number): Promise<Record<string, string>> {
    const { groups } = await this.groupsFor(job);
    if (groups.length === 0) return {};
    const own = groups[index % groups.length]!;
    return assignedEnvironment(own, workerEnvironment(this.#environment, job.env));
  }

  /** Devices for one more user, beside others that come and go: those with the fewest leases. */
  async lease(user: DeviceUser): Promise<DeviceLease> {
    const { groups, notices } = await this.groupsFor(user);
    if (groups.length === 0) return { devices: [], environment: {}, notices, release() {} };
    const leases = (group: Device[]) =>
      Math.max(...group.map(({ uuid }) => this.#leases.get(uuid) ?? 0));
    const own = groups.reduce((best, group) => (leases(group) < leases(best) ? group : best));
    const add = (count: number) => {
      for (const { uuid } of own) this.#leases.set(uuid, (this.#leases.get(uuid) ?? 0) + count);
    };
    add(1);
    let isReleased = false;
    return {
      devices: own,
      environment: assignedEnvironment(own, workerEnvironment(this.#environment, user.env)),
      notices,
      release() {
        if (!isReleased) add(-1);
        isReleased = true;
      },
    };
  }
}

/**
 * Divides devices among workers: one each, or as many as `workers.gpu` says (`l40s:2`). A job with
 * a `mainGpu` gets one worker with all of them, over which its model is spread.
 *
 * @throws SluiceError `JOB_INVALID` if `model.devices` names none of them, or if a worker's devices
 *   lack `mainGpu`.
 */
export function groupDevices(job: DeviceUser, shown: readonly Device[]): DeviceGroups {
  const asked = describeEngine(job.model).devices?.(job.model) ?? {};
  const { gpu } = job.workers;
  const notices: string[] = [];
  const key = job.model.engine === "program" ? "--gpu" : "workers.gpu";
  const note = (text: string) =>
    void notices.push(gpu === undefined ? text : `${key}: ${gpu}: ${text}`);
  if (shown.length === 0) {
    const nothing = "no GPU is seen on this machine";
    if (gpu !== undefined) note(nothing);
    else if (asked.devices !== undefined) note(`model.devices: ${nothing}`);
    else if (asked.perWorker !== undefined) {
      const gpus = asked.perWorker === 1 ? "a GPU" : `${asked.perWorker} GPUs`;
      note(`the model asks for ${gpus}, and ${nothing}: it runs without`);
    }
    return { groups: [], notices };
  }
  let devices = namedDevices(asked.devices, shown, notices);
  const { kind, count } = gpu === undefined ? {} : gpuRequest(gpu);
  if (kind !== undefined) {
    const ofKind = devices.filter(({ name }) => plain(name).includes(plain(kind)));
    if (ofKind.length > 0) devices = ofKind;
    else note(`there is none of that name, only ${devices.map(({ name }) => name).join(", ")}`);
  }
  const isSpread = asked.mainGpu !== undefined || job.takesAll === true;
  const needed = asked.perWorker ?? (isSpread ? devices.length : 1);
  if (needed > devices.length) {
    const problem = `the model needs ${needed} GPUs, and this machine shows ${devices.length}`;
    throw new SluiceError("JOB_INVALID", problem, { field: "model" });
  }
  const size = count ?? needed;
  if (size > devices.length) {
    const there = devices.length === 1 ? "there is only 1" : `there are only ${devices.length}`;
    note(`${there}; one worker has all that there is`);
  }
  const perWorker = Math.min(size, devices.length);
  const groups: Device[][] = [];
  for (let at = 0; at + perWorker <= devices.length; at += perWorker) {
    const group = devices.slice(at, at + perWorker);
    groups.push(asked.devices === undefined ? group : mainFirst(group, asked.mainGpu));
  }
  const unused = devices.length % perWorker;
  if (unused > 0) note(`${unused} of ${devices.length} GPUs are left over`);
  return { groups, notices };
}

function namedDevices(
  named: readonly (number | string)[] | undefined,
  shown: readonly Device[],
  notices: string[],
): Device[] {
  if (named === undefined) return [...shown];
  const found = new Set<Device>();
  const missing: (number | string)[] = [];
  for (const name of named) {
    const device = findDevice(shown, name);
    if (device) found.add(device);
    else missing.push(name);
  }
  const there = shown.map(({ id, name }) => `${id} (${name})`).join(", ");
  const problem = `model.devices: ${missing.join(", ")} is not among the GPUs here: ${there}`;
  if (found.size === 0) throw new SluiceError("JOB_INVALID", problem, { field: "model.devices" });
  if (missing.length > 0) notices.push(problem);
  return [...found];
}

const plain = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, "");
