import { freemem, platform } from "node:os";
import type { Json } from "../../foundation/json.ts";
import { assignedDevices, visibilityOf } from "../devices.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { ggufWeights } from "../models/models.ts";
import { openOpenai } from "../openai/engine.ts";
import { openaiModel } from "../openai/options.ts";
import { redactor } from "../secrets.ts";
import { contextShape } from "../weights/context-shape.ts";
import { type GgufMetadata, readGgufMetadata } from "../weights/gguf-metadata.ts";
import { argumentValue, withDefaults } from "./arguments.ts";
import { openManagedEngine, type ServerAddress } from "./managed-engine.ts";
import type { LlamaServerModelOptions, ManagedModelOptions, VllmModelOptions } from "./options.ts";
import { llamaServerFacts, vllmFacts } from "./server-facts.ts";
import type { ServerLaunch } from "./server-launch.ts";
import { argumentsOf, commandOf, findServerProgram } from "./server-programs.ts";

/** Waiting requests at a server for each one in work: it begins the next without a round trip. */
const waitingShare = 0.25;

/** Where the inner engine finds the key; the server takes it from another variable. */
const innerKeyVariable = "SLUICE_SERVER_KEY";

/**
 * Opens the engine `llama-server`: the program of llama.cpp, started with a GGUF model, which is
 * fetched if it is missing.
 *
 * @param freeBytes memory of which its context may take a share, without a GPU.
 * @throws SluiceError `PROGRAM_MISSING`; as `resolveModel` and `openManagedEngine`.
 */
export async function openLlamaServer(
  options: LlamaServerModelOptions,
  context: EngineContext,
  freeBytes = freemem(),
): Promise<Engine> {
  const { modelPath: path, ...file } = await ggufWeights(options.name, context);
  const { sequences, contextTokens } = await shapeOf(options, path, context, freeBytes);
  const args = withDefaults(argumentsOf(options), [
    { flags: slotFlags, value: sequences },
    // The server divides its context among its slots.
    { flags: contextFlags, value: sequences * contextTokens },
    { flags: ["-ub", "--ubatch-size"], value: 1024 },
    { flags: ["--cache-reuse"], value: 64 },
    { flags: ["-t", "--threads"], value: options.threads },
    { flags: ["-ngl", "--gpu-layers", "--n-gpu-layers"], value: options.gpuLayers },
    // Absent parameters of a request must mean the same for every engine.
    { flags: ["--top-k"], value: 0 },
    { flags: ["--min-p"], value: 0 },
  ]);
  const own = { args, keyVariable: "LLAMA_API_KEY", readFacts: llamaServerFacts };
  return openWith(options, context, { ...own, model: ["-m", path], weights: file });
}

const slotFlags = ["-np", "--parallel", "--n-parallel"] as const;
const contextFlags = ["-c", "--ctx-size"] as const;

/** Requests in flight, and tokens of each: as in the job, else as much as fits into memory. */
async function shapeOf(
  options: LlamaServerModelOptions,
  modelPath: string,
  { environment, logger }: EngineContext,
  freeBytes: number,
): Promise<{ sequences: number; contextTokens: number }> {
  const args = argumentsOf(options);
  const slots = Number(argumentValue(args, slotFlags));
  const asked = { ...options, sequences: options.sequences ?? (slots > 0 ? slots : undefined) };
  // The memory of a file that only the server reads is unknown here.
  const metadata = await readGgufMetadata(modelPath).catch((): GgufMetadata => ({}));
  const shapeWithin = (bytes: number | undefined) =>
    contextShape(asked, { metadata, trainedTokens: Infinity, cores: 1, freeBytes: bytes });
  const usual = shapeWithin(undefined);
  const isGiven = argumentValue(args, contextFlags) !== undefined;
  if (isGiven || isOnGpu(options, environment)) return usual;
  const fitting = shapeWithin(freeBytes);
  if (fitting.sequences < usual.sequences) {
    const free = `${(freeBytes / 2 ** 30).toFixed(1)} GiB of memory are free`;
    const fewer = `${fitting.sequences} requests at once in place of ${usual.sequences}`;
    logger.log("warn", `llama-server: ${fewer}, for ${free}; model.sequences says how many`);
  }
  return fitting;
}

/** Whether the context is in the memory of a GPU, which the server manages. */
function isOnGpu(
  { gpuLayers }: LlamaServerModelOptions,
  environment: EngineContext["environment"],
): boolean {
  if (gpuLayers !== undefined) return gpuLayers > 0;
  return assignedDevices(environment) !== undefined || platform() === "darwin";
}

/**
 * Opens the engine `vllm`: `vllm serve`, which fetches its model itself.
 *
 * @throws SluiceError `PROGRAM_MISSING`; as `openManagedEngine`.
 */
export async function openVllm(options: VllmModelOptions, context: EngineContext): Promise<Engine> {
  const { name, sequences, contextTokens } = options;
  const args = withDefaults(argumentsOf(options), [
    { flags: ["--max-num-seqs"], value: sequences },
    { flags: ["--max-model-len"], value: contextTokens },
    // Absent parameters of a request must mean the same for every model.
    { flags: ["--generation-config"], value: "vllm" },
    // Otherwise it writes a line for each request.
    { flags: ["--uvicorn-log-level"], value: "warning" },
  ]);
  return openWith(options, context, {
    model: ["serve", name],
    args,
    keyVariable: "VLLM_API_KEY",
    readFacts: (client) => vllmFacts(client, sequences),
    weights: {},
  });
}

/** The differences between the two. */
interface OwnLaunch extends Pick<ServerLaunch, "keyVariable" | "readFacts"> {
  /** Arguments for the model. */
  model: string[];
  args: string[];
  weights: Record<string, Json>;
}

async function openWith(
  options: ManagedModelOptions,
  context: EngineContext,
  { model, args, keyVariable, readFacts, weights }: OwnLaunch,
): Promise<Engine> {
  const { environment } = context;
  const program = await findServerProgram(options, environment);
  const [, ...first] = commandOf(options);
  const redact = redactor(environment);
  const launch: ServerLaunch = {
    name: options.engine,
    command: [program, ...first, ...model, ...args],
    environment: deviceVariables(options.devices, environment),
    ...{ keyVariable, readFacts },
    loadTimeoutMs: options.loadTimeoutMs,
    choices: {
      weights: { ...weights, args: args.map(redact) },
      ...(assignedDevices(environment) !== undefined && { gpu: "cuda" }),
    },
  };
  return openManagedEngine({
    launch,
    context,
    openEngine: async (address) => openInner(options, address, context),
  });
}

/** The GPUs for a server; those of its worker override those of the job. */
function deviceVariables(
  devices: ManagedModelOptions["devices"],
  environment: EngineContext["environment"],
): Record<string, string> {
  if (devices === undefined || assignedDevices(environment) !== undefined) return {};
  return visibilityOf(devices);
}

/** Requests go to the server as to any OpenAI-compatible one. */
function openInner(
  options: ManagedModelOptions,
  { baseUrl, key, facts }: ServerAddress,
  context: EngineContext,
): Engine {
  const { maxBatchRows, extraBody, timeoutMs, maxEndpointDownMs, structuredOutput } = options;
  const maxInFlight =
    options.maxInFlight ?? (facts.slots && Math.ceil(facts.slots * (1 + waitingShare)));
  const asked = openaiModel.parse({
    engine: "openai",
    name: facts.modelName,
    ...{ baseUrl, apiKeyEnv: innerKeyVariable, maxInFlight },
    ...{ maxBatchRows, extraBody, timeoutMs, maxEndpointDownMs, structuredOutput },
  });
  // Without the variables of the worker: no proxy is used, and no other key sent.
  return openOpenai(asked, { ...context, environment: { [innerKeyVariable]: key } });
}
