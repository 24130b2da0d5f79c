import { z } from "zod";
import { oneLine } from "../../foundation/setting.ts";

const store = z
  .string()
  .regex(/^[\w.-]+(:[^\r\n]*)?$/, "must be a data store, as my-store or my-store:/prefix");

/** Keys of `codeEngine` in a job. */
export const codeEngineOptions = z.strictObject({
  image: oneLine.describe("Container image with Node.js and Sluice"),
  registrySecret: oneLine.optional().describe("Secret that opens the image's registry"),
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("How the image starts Sluice, as words; default: sluice"),
  stateStore: oneLine.describe("Data store in which the fleet keeps the state of its tasks"),
  subnetPool: oneLine.describe("Subnet pool of the workers"),
  workerProfile: oneLine
    .optional()
    .describe("Machine, such as gx3-24x120x1l40s; default: from workers.gpu, cpu and memory"),
  mounts: z
    .record(z.string().regex(/^\//, "must be an absolute path"), store)
    .optional()
    .describe("Places of workers, and the data stores that they show, such as my-store:/prefix"),
  envs: z
    .record(z.string().regex(/^[A-Za-z_]\w*$/, "must be the name of a variable"), z.string())
    .optional()
    .describe("Variables of workers"),
  envFrom: z.array(oneLine).optional().describe("Secrets whose keys become variables of workers"),
  retries: z
    .int()
    .min(0)
    .max(100)
    .optional()
    .describe("Starts of a worker after a failure; default 3"),
  maxSeconds: z.int().min(1).optional().describe("Longest time of a worker"),
});
