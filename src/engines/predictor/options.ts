import { z } from "zod";
import { batchShape, replicaShape } from "../batching/batch-options.ts";
import { hasEnoughDevices } from "../replicas.ts";

/** `model` of a job with engine `predictor`. */
export const predictorModel = z
  .strictObject({
    engine: z.literal("predictor").describe("The engine that answers requests"),
    name: z
      .string()
      .default("predictor")
      .describe("Name of the model, which is passed to the module"),
    module: z.string().min(1).describe("The module with your code: a path, such as ./predict.ts"),
    moduleSha256: z
      .string()
      .optional()
      .describe(
        "SHA-256 of the module's file, which Sluice fills in: if it changes, it is another run",
      ),
    export: z
      .string()
      .optional()
      .describe("Name of the module's export to use; default: its default export, or all of them"),
    options: z
      .record(z.string(), z.any())
      .default({})
      .describe("Passed to the module's load() as context.options"),
    ...batchShape,
    ...replicaShape,
  })
  .refine(hasEnoughDevices, {
    path: ["replicas"],
    message: "there are more replicas than devices: each needs a GPU of its own",
  });

export type PredictorModelOptions = z.output<typeof predictorModel>;
