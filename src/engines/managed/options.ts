import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { setting } from "../../foundation/setting.ts";
import { openaiModel } from "../openai/options.ts";

const count = z.int().min(1);

const command = setting(
  "operation",
  "Program that is started: a name on PATH, a path, or a list of it and its first arguments",
  z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).optional(),
);

const args = setting(
  "operation",
  "Further arguments of the server; they win over those that Sluice gives",
  z.array(z.union([z.string(), z.number()])).default([]),
);

const { maxBatchRows, extraBody, timeoutMs, maxEndpointDownMs } = openaiModel.shape;

const asking = {
  maxInFlight: setting(
    "operation",
    "Requests with a server at once; default: what it computes at once and a quarter more",
    count.max(limits.maxInFlight).optional(),
  ),
  maxBatchRows,
  extraBody,
  timeoutMs,
  maxEndpointDownMs,
  loadTimeoutMs: setting(
    "operation",
    "Time a server may take until it answers, downloads of its own included",
    count.max(limits.maxServerLoadTimeoutMs).default(limits.serverLoadTimeoutMs),
  ),
};

const structuredOutput = (own: "grammar" | "structured-outputs") =>
  setting(
    "operation",
    "How the server is asked to keep to a schema; none: answers are only checked",
    z.enum(["response-format", "grammar", "structured-outputs", "none"]).default(own),
  );

const devices = setting(
  "operation",
  "GPUs to use, by number or UUID; default: all that CUDA_VISIBLE_DEVICES shows",
  z
    .array(z.union([z.int().min(0), z.string().min(1)]))
    .min(1)
    .optional(),
);

/** `model` of a job with engine `llama-server`. */
export const llamaServerModel = z.strictObject({
  engine: z.literal("llama-server").describe("What answers requests"),
  name: z.string().describe("A catalog name, a path to a .gguf file, or hf:owner/repo/file.gguf"),
  command,
  args,
  sequences: setting(
    "operation",
    "Requests computed at once; default 32",
    count.max(256).optional(),
  ),
  contextTokens: count
    .optional()
    .describe("Tokens of prompt and answer a request may have; default 2048"),
  threads: setting("operation", "CPU threads of the server; default: its own", count.optional()),
  gpuLayers: setting(
    "operation",
    "Layers that the GPU computes; default: the server's own",
    z.int().min(0).optional(),
  ),
  devices,
  ...asking,
  structuredOutput: structuredOutput("grammar"),
});

/** `model` of a job with engine `vllm`. */
export const vllmModel = z.strictObject({
  engine: z.literal("vllm").describe("What answers requests"),
  name: z.string().describe("A model on the Hugging Face hub, as owner/repo, or a folder"),
  command,
  args,
  sequences: setting(
    "operation",
    "Requests computed at once; default: the server's own",
    count.optional(),
  ),
  contextTokens: count
    .optional()
    .describe("Tokens of prompt and answer a request may have; default: the model's"),
  devices,
  ...asking,
  structuredOutput: structuredOutput("structured-outputs"),
});

export type LlamaServerModelOptions = z.output<typeof llamaServerModel>;
export type VllmModelOptions = z.output<typeof vllmModel>;
export type ManagedModelOptions = LlamaServerModelOptions | VllmModelOptions;
