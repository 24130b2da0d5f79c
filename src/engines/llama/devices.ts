import { SluiceError } from "../../foundation/errors.ts";
import { assignedDevices, mainFirst, visibilityVariables } from "../devices.ts";
import type { DeviceOptions } from "../engine-description.ts";

/**
 * The environment variables that show an engine host its GPUs, the main one first; none where the
 * job says nothing, or where the worker was given its devices.
 *
 * @param environment that of the worker.
 * @throws SluiceError `JOB_INVALID` where `mainGpu` is none of the devices.
 * @example
 * visibleDevices({ devices: [0, 2], mainGpu: 1 }, {}).CUDA_VISIBLE_DEVICES; // "2,0"
 */
export function visibleDevices(
  { devices, mainGpu }: DeviceOptions,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  if (devices === undefined) {
    if (mainGpu === undefined) return {};
    const field = "model.mainGpu";
    const problem = "it is the place in model.devices, which is not given";
    throw new SluiceError("JOB_INVALID", `${field}: ${problem}`, { field });
  }
  const ordered = mainFirst(devices, mainGpu).join(",");
  if (assignedDevices(environment) !== undefined) return {};
  return Object.fromEntries(visibilityVariables.map((name) => [name, ordered]));
}
