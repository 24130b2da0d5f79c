import { z } from "zod";
import { limits } from "../foundation/limits.ts";
import { setting } from "../foundation/setting.ts";

const count = z.int().min(1);
const rate = z.number().min(0).max(1);

const loraAdapter = z.strictObject({
  path: z.string().describe("A GGUF file"),
  scale: z.number().default(1).describe("How strongly it counts"),
});

const llamaModel = z.strictObject({
  engine: z.literal("llama"),
  name: z.string().describe("A catalog name, a path to a .gguf file, or hf:owner/repo/file.gguf"),
  sequences: setting(
    "operation",
    "Requests computed at once; default 32",
    count.max(256).optional(),
  ),
  contextTokens: count.optional().describe("Tokens of prompt and answer a request may have"),
  repack: z
    .enum(["auto", "off"])
    .optional()
    .describe(
      "Slow weights are turned into Q8_0 once, where that is measured to pay; default auto",
    ),
  threads: setting("operation", "CPU threads of the model; default: cores", count.optional()),
  batchTokens: setting("operation", "Tokens computed in one pass; default 512", count.optional()),
  gpuLayers: setting(
    "operation",
    "Layers that the GPU computes; default: as many as fit",
    z.int().min(0).optional(),
  ),
  devices: setting(
    "operation",
    "GPUs to use, by number or UUID; default: all that CUDA_VISIBLE_DEVICES shows",
    z
      .array(z.union([z.int().min(0), z.string().min(1)]))
      .min(1)
      .optional(),
  ),
  mainGpu: setting(
    "operation",
    "Which of the devices comes first and holds what is not divided, from 0",
    z.int().min(0).optional(),
  ),
  lora: z
    .union([
      z.string().transform((path) => [loraAdapter.parse({ path })]),
      z.array(z.union([z.string().transform((path) => loraAdapter.parse({ path })), loraAdapter])),
    ])
    .optional()
    .describe("LoRA adapters: a path of a GGUF file, or a list of paths or {path, scale}"),
});

const openaiModel = z.strictObject({
  engine: z.literal("openai"),
  name: z.string().describe("The model's name on the server"),
  baseUrl: setting(
    "operation",
    "Address up to and with /v1; default https://api.openai.com/v1",
    z.url().default("https://api.openai.com/v1"),
  ),
  apiKeyEnv: setting(
    "operation",
    "Environment variable that holds the API key; default OPENAI_API_KEY where it is set",
    z.string().optional(),
  ),
  maxInFlight: setting(
    "operation",
    "Requests at once",
    count.max(4096).default(limits.defaultMaxInFlight),
  ),
  timeoutMs: setting(
    "operation",
    "Time one request may take",
    count.default(limits.requestTimeoutMs),
  ),
  maxEndpointDownMs: setting(
    "operation",
    "Time the endpoint may be down before the run stops, resumable",
    z.int().min(0).default(limits.maxEndpointDownMs),
  ),
  structuredOutput: setting(
    "operation",
    "How the server is asked to keep to a schema; none: answers are only checked",
    z.enum(["response-format", "grammar", "structured-outputs", "none"]).default("response-format"),
  ),
  contextTokens: count
    .optional()
    .describe("Context of the model, where the server does not check it"),
});

/** How the fake engine can fail; the last two end the engine, or the worker process. */
export const fakeFailureKinds = [
  "retryable",
  "refused",
  "invalid",
  "fatal-run",
  "kill-engine",
  "kill-worker",
] as const;

const fakeModel = z.strictObject({
  engine: z.literal("fake"),
  name: z.string().default("fake"),
  latencyMs: setting(
    "operation",
    "Time an answer takes: a number, or a distribution",
    z
      .union([
        z.number().min(0),
        z.strictObject({ min: z.number().min(0), max: z.number().min(0) }).describe("Even"),
        z.strictObject({ mean: z.number().min(0) }).describe("Exponential"),
      ])
      .default(0),
  ),
  capacity: setting("operation", "Requests it holds at once", count.max(65_536).default(64)),
  failureRate: setting("operation", "Share of requests that fail, retryable", rate.default(0)),
  failures: setting(
    "operation",
    "Failures by row index or by share of rows",
    z
      .array(
        z.strictObject({
          row: z.int().min(0).optional(),
          rate: rate.optional(),
          kind: z.enum(fakeFailureKinds),
        }),
      )
      .default([]),
  ),
  countFile: setting(
    "operation",
    "File that gets a line for each request asked",
    z.string().optional(),
  ),
  seed: z.int().default(0).describe("Answers follow from it and from the request"),
});

/** The model of a job: which engine, which weights, and how it is driven. */
export const modelOptions = z.discriminatedUnion("engine", [llamaModel, openaiModel, fakeModel]);

export type ModelOptions = z.output<typeof modelOptions>;
export type LlamaModelOptions = z.output<typeof llamaModel>;
export type OpenaiModelOptions = z.output<typeof openaiModel>;
export type FakeModelOptions = z.output<typeof fakeModel>;
