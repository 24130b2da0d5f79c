import { z } from "zod";
import { atLeastOne } from "../../foundation/setting.ts";
import { gpuRequestPattern } from "./gpu-request.ts";

/** Keys of `workers` in a job. */
export const workersOptions = z.strictObject({
  max: atLeastOne
    .optional()
    .describe("Number of worker processes; default: from cores, GPUs and engine"),
  min: atLeastOne
    .optional()
    .describe("For `backend: ray`: workers that must find room on the cluster; default 1"),
  cpu: z.number().gt(0).optional().describe("Cores that a worker needs"),
  memory: z
    .string()
    .regex(/^\d+(\.\d+)?\s*[KMGT]i?B?$/i, "must be a number with K, M, G or T, as 120G")
    .optional()
    .describe("Memory that a worker needs, such as 120G"),
  maxSilenceMs: atLeastOne
    .min(1000)
    .max(86_400_000)
    .optional()
    .describe("A worker that is silent for this long is ended; default 60000"),
  gpu: z
    .string()
    .regex(gpuRequestPattern, "must be a number, a kind of GPU, or a kind and a number, as l40s:2")
    .optional()
    .describe("GPUs for each worker, such as l40s:2; default: one of any kind"),
});
