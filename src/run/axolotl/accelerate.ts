import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { JobSpec } from "../job/schema.ts";

const known: readonly string[] = ["gpu_ids", "num_processes", "use_cpu", "num_machines"];

/** What a file of `accelerate config` says of where a job runs. */
export interface AccelerateConfig {
  /** GPUs by number; undefined = all. */
  devices: number[] | undefined;
  workers: number | undefined;
  onlyCpu: boolean;
  notices: string[];
}

/**
 * Reads a file of `accelerate config`: `gpu_ids`, `num_processes` and `use_cpu`.
 *
 * @param file its path, for messages.
 * @throws SluiceError `JOB_INVALID` for invalid values, and for GPUs beside `use_cpu`;
 *   `UNSUPPORTED` for several machines.
 */
export function readAccelerateConfig(config: JsonObject, file: string): AccelerateConfig {
  const { num_processes: workers, use_cpu: onlyCpu = false, num_machines: machines = 1 } = config;
  const invalid = (field: string, problem: string) =>
    new SluiceError("JOB_INVALID", problem, { file, field });
  if (typeof onlyCpu !== "boolean") throw invalid("use_cpu", "must be true or false");
  const isCount = typeof workers === "number" && Number.isInteger(workers) && workers > 0;
  if (workers !== undefined && workers !== null && !isCount) {
    throw invalid("num_processes", "must be a whole number, at least 1");
  }
  const devices = devicesOf(config.gpu_ids ?? "all");
  if (devices?.some((id) => !Number.isInteger(id) || id < 0)) {
    throw invalid("gpu_ids", "must be all, or numbers of GPUs as 0,1");
  }
  if (devices !== undefined && onlyCpu) throw invalid("gpu_ids", "stands beside use_cpu: true");
  if (machines !== null && Number(machines) > 1) {
    throw new SluiceError("UNSUPPORTED", "one call runs on one machine", {
      file,
      field: "num_machines",
      hint: "plan the run, and start sluice worker on each machine: see docs/worker-contract.md",
    });
  }
  const others = Object.keys(config).filter((key) => !known.includes(key));
  return {
    devices,
    workers: isCount ? workers : undefined,
    onlyCpu,
    notices: others.length === 0 ? [] : [`not read of ${file}: ${others.join(", ")}`],
  };
}

function devicesOf(ids: unknown): number[] | undefined {
  if (ids === "all") return undefined;
  const list = Array.isArray(ids) ? ids : String(ids).split(",");
  return list.map((id) => (String(id).trim() === "" ? Number.NaN : Number(id)));
}

/** The job with the file's values for what the job leaves open. */
export function withAccelerate(job: JobSpec, config: AccelerateConfig): JobSpec {
  const { devices, onlyCpu } = config;
  const { model, workers } = job;
  const max = workers.max ?? config.workers;
  const placed = { ...job, workers: { ...workers, ...(max !== undefined && { max }) } };
  if (model.engine !== "llama") return placed;
  const gpuLayers = model.gpuLayers ?? (onlyCpu ? 0 : undefined);
  return {
    ...placed,
    model: {
      ...model,
      ...(devices && { devices: model.devices ?? devices }),
      ...(gpuLayers !== undefined && { gpuLayers }),
    },
  };
}
