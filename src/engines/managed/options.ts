import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";
import { llamaModel } from "../llama/options.ts";
import { openaiModel } from "../openai/options.ts";

const command = setting(
  "operation",
  "Program to start: a name on PATH, a path, or a list with its first arguments",
  z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).optional(),
);

const args = setting(
  "operation",
  "Further arguments of the server; they override those of Sluice",
  z.array(z.union([z.string(), z.number()])).default([]),
);

const { maxBatchRows, extraBody, timeoutMs, maxEndpointDownMs } = openaiModel.shape;
const { devices } = llamaModel.shape;

const asking = {
  maxInFlight: setting(
    "operation",
    "Requests in flight to a server; default: its parallel requests and a quarter more",
    atLeastOne.max(limits.maxInFlight).optional(),
  ),
  maxBatchRows,
  extraBody,
  timeoutMs,
  maxEndpointDownMs,
  loadTimeoutMs: setting(
    "operation",
    "Longest time until a server answers, including its own downloads",
    atLeastOne.max(limits.maxServerLoadTimeoutMs).default(limits.serverLoadTimeoutMs),
  ),
};

const structuredOutput = (own: "grammar" | "structured-outputs") =>
  setting(
    "operation",
    "How the server is asked to follow a schema; none: answers are only checked",
    z.enum(["response-format", "grammar", "structured-outputs", "none"]).default(own),
  );

/** `model` of a job with engine `llama-server`. */
export const llamaServerModel = z.strictObject({
  engine: z.literal("llama-server").describe("The engine that answers requests"),
  name: llamaModel.shape.name,
  command,
  args,
  sequences: llamaModel.shape.sequences,
  contextTokens: atLeastOne.optional().describe("Most tokens of prompt and answer; default 2048"),
  threads: setting(
    "operation",
    "CPU threads of the server; default: its own",
    atLeastOne.optional(),
  ),
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
  engine: z.literal("vllm").describe("The engine that answers requests"),
  name: z.string().describe("A model on the Hugging Face hub, such as owner/repo, or a folder"),
  command,
  args,
  sequences: setting(
    "operation",
    "Requests computed at once; default: the server's own",
    atLeastOne.optional(),
  ),
  contextTokens: atLeastOne
    .optional()
    .describe("Most tokens of prompt and answer; default: the model's"),
  devices,
  ...asking,
  structuredOutput: structuredOutput("structured-outputs"),
});

export type LlamaServerModelOptions = z.output<typeof llamaServerModel>;
export type VllmModelOptions = z.output<typeof vllmModel>;
export type ManagedModelOptions = LlamaServerModelOptions | VllmModelOptions;
