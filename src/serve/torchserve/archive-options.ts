import { z } from "zod";
import { atLeastOne } from "../../foundation/setting.ts";

export const runtimes = ["python", "python3", "node"] as const;

const fileName = z
  .string()
  .regex(/^(?!\/)(?!.*(^|[/\\])\.\.([/\\]|$))[^\0]+$/, "must be a file of the archive");

/** `MAR-INF/MANIFEST.json` of an archive. Keys beyond these are left to the handler. */
export const manifestSchema = z.looseObject({
  createdOn: z.string().optional(),
  runtime: z.enum(runtimes).default("python"),
  archiverVersion: z.string().optional(),
  model: z.looseObject({
    modelName: z.string().min(1),
    modelVersion: z.coerce.string().min(1).default("1.0"),
    serializedFile: fileName.optional(),
    modelFile: fileName.optional(),
    /** A file, and behind a colon the function or export in it. */
    handler: fileName,
    requirementsFile: fileName.optional(),
    configFile: fileName.optional(),
  }),
});

export type Manifest = z.output<typeof manifestSchema>;

const count = z.int().min(0);

/** Workers that a model has at most: each is a process. */
export const mostWorkers = 256;

/** How a model is served, in the units of TorchServe: of an archive's YAML, and of `models=`. */
export const workerOptions = z.looseObject({
  minWorkers: count.max(mostWorkers).optional(),
  maxWorkers: count.optional(),
  batchSize: count.optional(),
  maxBatchDelay: count.optional(),
  responseTimeout: atLeastOne.optional(),
  startupTimeout: atLeastOne.optional(),
  jobQueueSize: atLeastOne.optional(),
  deviceType: z.enum(["cpu", "gpu", "neuron", "hpu"]).optional(),
  deviceIds: z.array(count).optional(),
});

export type WorkerOptions = z.output<typeof workerOptions>;

/** `setup_config.json` of an archive, by which handlers choose their GPU: its number by model. */
export const setupSchema = z.looseObject({ cuda_id: z.record(z.string(), count).optional() });
