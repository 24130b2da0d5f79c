import { z } from "zod";
import { setting } from "../../foundation/setting.ts";
import { batchShape, replicaShape } from "../batching/batch-options.ts";
import { hasEnoughDevices } from "../replicas.ts";

/** `model` of a job with engine `command`. */
export const commandModel = z
  .strictObject({
    engine: z.literal("command").describe("The engine that answers requests"),
    name: z.string().default("command").describe("Name of the model, for reports"),
    command: z
      .string()
      .min(1)
      .describe("Program that answers batches: a name on PATH, or a path, such as ./predict"),
    args: z
      .array(z.union([z.string(), z.number()]))
      .default([])
      .describe("Its arguments"),
    filesSha256: z
      .string()
      .optional()
      .describe(
        "SHA-256 of the files among them, which Sluice fills in: if it changes, it is another run",
      ),
    workingDirectory: setting(
      "operation",
      "Its working directory; default: the folder of the job file",
      z.string().min(1).optional(),
    ),
    ...batchShape,
    ...replicaShape,
  })
  .refine(hasEnoughDevices, {
    path: ["replicas"],
    message: "there are more replicas than devices: each needs a GPU of its own",
  });

export type CommandModelOptions = z.output<typeof commandModel>;
