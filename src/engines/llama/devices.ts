import { SluiceError } from "../../foundation/errors.ts";

/** What a job says about GPUs. */
export interface DeviceOptions {
  /** Numbers or names, as the vendor's driver has them. */
  devices?: readonly (number | string)[] | undefined;
  /** Which of `devices` comes first. */
  mainGpu?: number | undefined;
}

/** Variables by which the libraries of CUDA, HIP and Vulkan are told what to see. */
const visibility = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"];

/**
 * The environment variables that show an engine host its GPUs, the main one first; none where the
 * job says nothing, so that what a scheduler or worker pool set stands.
 *
 * @throws SluiceError `JOB_INVALID` where `mainGpu` is none of the devices.
 * @example
 * visibleDevices({ devices: [0, 2], mainGpu: 1 }).CUDA_VISIBLE_DEVICES; // "2,0"
 */
export function visibleDevices({ devices, mainGpu }: DeviceOptions): Record<string, string> {
  if (devices === undefined) {
    if (mainGpu === undefined) return {};
    throw invalid("model.mainGpu", "it is the place in model.devices, which is not given");
  }
  const first = mainGpu ?? 0;
  const main = devices[first];
  if (main === undefined) {
    throw invalid("model.mainGpu", `${first} is none of the ${devices.length} devices, from 0`);
  }
  const ordered = [main, ...devices.filter((_, at) => at !== first)];
  return Object.fromEntries(visibility.map((name) => [name, ordered.join(",")]));
}

function invalid(field: string, problem: string): SluiceError {
  return new SluiceError("JOB_INVALID", `${field}: ${problem}`, { field });
}
