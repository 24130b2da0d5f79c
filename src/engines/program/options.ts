import { z } from "zod";
import { atLeastOne, setting } from "../../foundation/setting.ts";

/** An absolute path of the programs' file system, where a mount appears. */
const mountPath = z
  .string()
  .regex(/^\/[^/\0]+(\/[^/\0]+)*$/, "must be an absolute path, as /input")
  .refine((path) => !path.split("/").some((name) => name === "." || name === ".."), {
    message: "must not hold . or ..",
  });

const mount = z.strictObject({
  path: mountPath.describe("Where programs find it, such as /input"),
  store: z.string().min(1).optional().describe("Name of the store, for people"),
  location: z
    .string()
    .min(1)
    .describe("What is there: a folder, or s3://BUCKET/PREFIX, r2://…, gs://…"),
});

/** `model` of a job with engine `program`. */
export const programModel = z.strictObject({
  engine: z.literal("program").describe("The engine that answers requests"),
  name: z.string().default("program").describe("Name of the fleet, which programs are told"),
  command: z
    .array(z.string())
    .default([])
    .describe("Program and first arguments of rows without `cmds`"),
  args: z.array(z.string()).default([]).describe("Arguments of rows without `args`"),
  workingDirectory: setting(
    "operation",
    "Working directory of the programs; default: the folder of the job file",
    z.string().min(1).optional(),
  ),
  timeoutMs: setting(
    "operation",
    "Longest time of a try; then the program and its children are ended. Default: no limit",
    atLeastOne.optional(),
  ),
  instances: setting(
    "operation",
    "Programs that each worker runs side by side",
    atLeastOne.max(256).default(1),
  ),
  cpu: setting(
    "operation",
    "Cores that each program books: a worker with fewer runs fewer side by side",
    z.number().gt(0).optional(),
  ),
  gpus: setting(
    "operation",
    "Whether programs compute on GPUs: each worker then has its own, as workers.gpu says",
    z.boolean().default(false),
  ),
  array: setting(
    "operation",
    "What programs are told of all tasks, as SLUICE_TASK_COUNT and SLURM_ARRAY_TASK_MIN",
    z
      .strictObject({
        count: z.int().min(0).describe("Number of tasks"),
        min: z.int().min(0).describe("Lowest index"),
        max: z.int().min(0).describe("Highest index"),
      })
      .optional(),
  ),
  image: z.string().min(1).optional().describe("Container image that programs run in"),
  registrySecret: setting(
    "operation",
    "Name of the secret with which a scheduler pulls the image",
    z.string().min(1).optional(),
  ),
  variables: setting(
    "operation",
    "Names of variables of the worker that programs in an image get; without one they get all",
    z.array(z.string().min(1)).default([]),
  ),
  mounts: z
    .array(mount)
    .default([])
    .describe("Places of objects: staged in before a program, results staged out after it"),
});

export type ProgramModelOptions = z.output<typeof programModel>;
