import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import type { Environment } from "../foundation/subprocess.ts";
import { runCommand, type Spawn } from "../foundation/subprocess.ts";

/** A GPU of this machine. */
export interface Device {
  /** Its number in `nvidia-smi`; for a part of a GPU (MIG) its name. */
  id: string;
  uuid: string;
  /** Its vendor's name, such as `NVIDIA L40S`. */
  name: string;
  /** As the driver writes it, such as `46068 MiB`. */
  memory: string;
  /** Its entry in `CUDA_VISIBLE_DEVICES`. */
  selector: string;
}

/** The GPUs that were found. */
export interface DeviceListing {
  devices: Device[];
  /** Why they could not be listed, if the driver's program is there and failed. */
  problem?: string;
}

/** Variables that tell the libraries of CUDA, HIP and Vulkan which devices to show. */
export const visibilityVariables = Object.freeze([
  "CUDA_VISIBLE_DEVICES",
  "HIP_VISIBLE_DEVICES",
  "GGML_VK_VISIBLE_DEVICES",
] as const);

/** The variables that show these devices alone, by the driver's names, in this order. */
export function visibilityOf(devices: readonly (string | number)[]): Record<string, string> {
  return Object.fromEntries(visibilityVariables.map((name) => [name, devices.join(",")]));
}

/** Names the devices of a worker, such as `cuda:1`: its engine must use no others. */
export const assignedVariable = "SLUICE_DEVICE";

const query = ["--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader"];

/**
 * The NVIDIA GPUs of this machine, in the order of their numbers; none without `nvidia-smi`. The
 * columns are those of `nvidia-smi --help-query-gpu`.
 *
 * @param environment its `PATH` has `nvidia-smi`.
 */
export async function listDevices(environment: Environment, spawn?: Spawn): Promise<DeviceListing> {
  const timeoutMs = limits.deviceListTimeoutMs;
  try {
    const options = { env: environment, timeoutMs, ...(spawn && { spawn }) };
    const { code, stdout, stderr, timedOut } = await runCommand("nvidia-smi", query, options);
    if (code === 0) return { devices: stdout.split("\n").flatMap(deviceOf) };
    const said = `${stdout}\n${stderr}`.trim().split("\n")[0];
    const problem = timedOut ? `no reply within ${timeoutMs / 1000} s` : said || `code ${code}`;
    return { devices: [], problem: `nvidia-smi: ${problem}` };
  } catch {
    // Without the driver's program there is no driver either.
    return { devices: [] };
  }
}

/** How much of a GPU is used. */
export interface DeviceUse {
  /** Its number in `nvidia-smi`. */
  id: string;
  /** Undefined if it shares the memory of the processor. */
  usedBytes: number | undefined;
  totalBytes: number | undefined;
  /** Share of the last moments in which it computed, 0 to 1. */
  utilization: number | undefined;
}

/** The use of each NVIDIA GPU: empty if the driver fails, undefined if there is none. */
export async function deviceUse(
  environment: Environment,
  spawn?: Spawn,
): Promise<DeviceUse[] | undefined> {
  const columns = "--query-gpu=index,memory.used,memory.total,utilization.gpu";
  const asked = [columns, "--format=csv,noheader,nounits"];
  const options = { env: environment, timeoutMs: limits.deviceListTimeoutMs };
  const found = await runCommand("nvidia-smi", asked, {
    ...options,
    ...(spawn && { spawn }),
  }).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) return found.code === "ENOENT" ? undefined : [];
  if (found.code !== 0) return [];
  return found.stdout.split("\n").flatMap((line) => {
    const [id = "", ...figures] = line.split(",").map((field) => field.trim());
    if (!/^\d+$/.test(id)) return [];
    // A figure that the GPU lacks is written as [N/A].
    const [used, total, percent] = figures.map((text) =>
      /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined,
    );
    return {
      id,
      usedBytes: used === undefined ? undefined : used * mebibyte,
      totalBytes: total === undefined ? undefined : total * mebibyte,
      utilization: percent === undefined ? undefined : percent / 100,
    };
  });
}

const mebibyte = 1024 * 1024;

/** The driver of the GPUs. */
export interface DriverFacts {
  /** Such as `580.159.04`. */
  version: string;
  /** The compute capability of each GPU, such as `9.0`. */
  capabilities: string[];
}

/** What the driver says of itself; undefined if it does not say. */
export async function driverFacts(environment: Environment): Promise<DriverFacts | undefined> {
  const asked = ["--query-gpu=driver_version,compute_cap", "--format=csv,noheader"];
  const options = { env: environment, timeoutMs: limits.deviceListTimeoutMs };
  const found = await runCommand("nvidia-smi", asked, options).catch(() => undefined);
  const lines = found?.code === 0 ? found.stdout.trim().split("\n") : [];
  const facts = lines.map((line) => line.split(",").map((field) => field.trim()));
  const version = facts[0]?.[0];
  return version
    ? { version, capabilities: facts.map(([, capability = ""]) => capability) }
    : undefined;
}

function deviceOf(line: string): Device[] {
  const [id, uuid, name, memory] = line.split(",").map((field) => field.trim());
  if (!id || !/^\d+$/.test(id) || !uuid || !name) return [];
  return [{ id, uuid, name, memory: memory ?? "", selector: id }];
}

/**
 * The devices that `CUDA_VISIBLE_DEVICES` shows, in its order; all if it is not set. Like CUDA, it
 * stops at the first entry that is not a device.
 */
export function shownDevices(devices: readonly Device[], environment: Environment): Device[] {
  const shown = environment[visibilityVariables[0]];
  if (shown === undefined) return [...devices];
  const found: Device[] = [];
  for (const entry of shown.split(",")) {
    const selector = entry.trim();
    const device = selector.startsWith("MIG-")
      ? { id: selector, uuid: selector, name: "MIG", memory: "" }
      : findDevice(devices, selector);
    if (!device) break;
    // Kept as written: without CUDA_DEVICE_ORDER its numbers may differ from those of the driver.
    found.push({ ...device, selector });
  }
  return found;
}

/** The device with a number, or with the first characters of a UUID. */
export function findDevice<T extends Device>(
  devices: readonly T[],
  named: number | string,
): T | undefined {
  const text = String(named);
  return devices.find(
    ({ id, uuid }) => id === text || (/^GPU-./.test(text) && uuid.startsWith(text)),
  );
}

/**
 * The environment variables that give a worker some devices and no others.
 *
 * @param environment the worker's other variables.
 * @example
 * assignedEnvironment([devices[1]], {}).CUDA_VISIBLE_DEVICES; // "1"
 */
export function assignedEnvironment(
  devices: readonly Device[],
  environment: Environment,
): Record<string, string> {
  const ids = devices.map(({ id }) => id).join(",");
  const [cuda, ...others] = visibilityVariables;
  return {
    [assignedVariable]: `cuda:${ids}`,
    [cuda]: devices.map(({ selector }) => selector).join(","),
    ...Object.fromEntries(others.map((name) => [name, ids])),
    // CUDA numbers the fastest device 0; nvidia-smi goes by the bus.
    ...(environment[cuda] === undefined && { CUDA_DEVICE_ORDER: "PCI_BUS_ID" }),
  };
}

/** The devices of this worker, such as `cuda:1`; undefined if it was given none. */
export function assignedDevices(environment: Environment): string | undefined {
  return environment[assignedVariable];
}

/**
 * Devices with the main one first.
 *
 * @param mainGpu its place among them, from 0; default 0.
 * @throws SluiceError `JOB_INVALID` if it is not one of them.
 */
export function mainFirst<T>(devices: readonly T[], mainGpu = 0): T[] {
  const main = devices[mainGpu];
  if (main === undefined) {
    const field = "model.mainGpu";
    const problem = `${mainGpu} is none of the ${devices.length} devices, from 0`;
    throw new SluiceError("JOB_INVALID", `${field}: ${problem}`, { field });
  }
  return [main, ...devices.filter((_, at) => at !== mainGpu)];
}
