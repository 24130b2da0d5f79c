import { z } from "zod";
import { atLeastOne, setting } from "../../foundation/setting.ts";

const loraAdapter = z.strictObject({
  path: z.string().describe("A GGUF file"),
  scale: z.number().default(1).describe("Its strength"),
});

const loraPath = z
  .string()
  .transform((path) => ({ path }))
  .pipe(loraAdapter);

/** `model` of a job with engine `llama`. */
export const llamaModel = z.strictObject({
  engine: z.literal("llama").describe("The engine that answers requests"),
  name: z.string().describe("A catalog name, a path to a .gguf file, or hf:owner/repo/file.gguf"),
  sequences: setting(
    "operation",
    "Requests computed at once; default 32",
    atLeastOne.max(256).optional(),
  ),
  contextTokens: atLeastOne.optional().describe("Most tokens of prompt and answer"),
  threads: setting("operation", "CPU threads of the model; default: cores", atLeastOne.optional()),
  batchTokens: setting(
    "operation",
    "Tokens computed in one pass; default 512",
    atLeastOne.optional(),
  ),
  gpuLayers: setting(
    "operation",
    "Layers that the GPU computes; default: as many as fit",
    z.int().min(0).optional(),
  ),
  devices: setting(
    "operation",
    "GPUs to use, by number or UUID; default: all in CUDA_VISIBLE_DEVICES",
    z
      .array(z.union([z.int().min(0), z.string().min(1)]))
      .min(1)
      .optional(),
  ),
  mainGpu: setting(
    "operation",
    "Number of the main device, which holds undivided data, from 0",
    z.int().min(0).optional(),
  ),
  precision: z
    .enum(["fast", "exact"])
    .optional()
    .describe(
      "On a CPU. exact: greedy answers do not depend on other requests, default of runs; " +
        "fast: a request alone takes two thirds of the time, default of a server",
    ),
  lora: z
    .union([loraPath.transform((adapter) => [adapter]), z.array(z.union([loraPath, loraAdapter]))])
    .optional()
    .describe("LoRA adapters: a path of a GGUF file, or a list of paths or {path, scale}"),
});

export type LlamaModelOptions = z.output<typeof llamaModel>;
