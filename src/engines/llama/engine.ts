import { basename } from "node:path";
import { errorFromRecord, SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, OnDelta } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { assignedDevices, mainFirst, visibilityOf } from "../devices.ts";
import type { Engine, EngineContext } from "../engine.ts";
import type { DeviceOptions } from "../engine-description.ts";
import { openHostedEngine } from "../host/client.ts";
import { keptSha256 } from "../models/kept-digest.ts";
import { ggufWeights } from "../models/models.ts";
import { locateEnginePackage } from "../packages/packages.ts";
import { EndedEarly } from "../restarting.ts";
import { WrappedEngine } from "../wrapped-engine.ts";
import type { HostedLlamaOptions } from "./hosted-llama.ts";
import { fullGpuHint, gpuHint, type LoraAdapter } from "./loaded-llama.ts";
import type { LlamaModelOptions } from "./options.ts";

/**
 * Opens the engine that computes GGUF models on this machine with node-llama-cpp. A missing model
 * or package is fetched. The engine runs in a host; see `openHostedEngine` for the effect of its
 * death.
 *
 * @throws SluiceError as `resolveModel`, `locateEnginePackage` and `openHostedEngine`, and
 *   `ADAPTER_UNUSABLE`.
 */
export async function openLlama(
  options: LlamaModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const { modelPath, ...file } = await ggufWeights(options.name, context);
  const { entry: modulePath } = await locateEnginePackage("llama", context, { install: true });
  const weights = {
    ...file,
    ...(options.lora && {
      lora: await Promise.all(options.lora.map((adapter) => adapterWeights(adapter, context))),
    }),
  };
  const hosted = { ...options, modelPath, modulePath, weights };
  const engine = await openLlamaFrom(hosted, context);
  const { choices = {} } = engine;
  const notice = unusedGpu(choices, assignedDevices(context.environment));
  if (notice !== undefined && options.gpuLayers !== 0) context.logger.log("warn", notice);
  const embeddingContexts = contextsForVectors(choices);
  if (embeddingContexts === 1) return engine;
  return withVectors(engine, () => openLlamaFrom({ ...hosted, embeddingContexts }, context));
}

/**
 * What a user must know of a model that computes on the CPU beside a GPU.
 *
 * @param given the GPUs of the worker, such as `cuda:0`.
 * @example
 * unusedGpu({ gpu: "cuda", gpuLayers: 31 }, "cuda:0"); // undefined
 */
export function unusedGpu(
  { gpu, gpuLayers }: NonNullable<Engine["choices"]>,
  given: string | undefined,
): string | undefined {
  if (given === undefined || (gpu !== false && gpuLayers !== 0)) return undefined;
  const reason =
    gpu === false
      ? "no library for it loads here (docs/engines.md#gpus)"
      : "no layer of the model fits into its free memory";
  return `the model computes on the CPU, not on ${given}: ${reason}`;
}

/**
 * Two engines as one: requests for embeddings go to the other one, which is opened at the first of
 * them; all others go to `generating`, whose name and choices it has.
 */
export function withVectors(generating: Engine, open: () => Promise<Engine>): Engine {
  return new EngineWithVectors(generating, open);
}

class EngineWithVectors extends WrappedEngine {
  readonly #open: () => Promise<Engine>;
  #vectors: Promise<Engine> | undefined;

  constructor(generating: Engine, open: () => Promise<Engine>) {
    super(generating);
    this.#open = open;
  }

  async infer(request: InferenceRequest, signal: AbortSignal, onDelta?: OnDelta) {
    if (request.embed !== true) return this.inner.infer(request, signal, onDelta);
    this.#vectors ??= this.#open().catch((error) => {
      this.#vectors = undefined;
      throw error;
    });
    return (await this.#vectors).infer(request, signal, onDelta);
  }

  override async close(): Promise<void> {
    const other = await this.#vectors?.catch(() => undefined);
    await Promise.all([this.inner.close(), other?.close()]);
  }
}

/**
 * How many contexts make vectors side by side: on a CPU one for each thread, which was 1.4 times as
 * fast on 2 cores as two threads on one text after another, as far as memory suffices.
 */
function contextsForVectors(choices: NonNullable<Engine["choices"]>): number {
  const { gpu, gpuLayers, threads, sequences } = choices;
  if (gpu !== false && gpuLayers !== 0) return 1;
  return Math.max(1, Math.min(Number(threads), Number(sequences)));
}

/** An adapter in the log and the manifest. */
async function adapterWeights(
  { path, scale }: LoraAdapter,
  { homeDirectory }: EngineContext,
): Promise<Record<string, Json>> {
  const sha256 = await keptSha256([path], homeDirectory).catch((cause: Error) => {
    const detail = `${path}: ${cause.message}`;
    throw new SluiceError("ADAPTER_UNUSABLE", detail, { file: path, field: "model.lora", cause });
  });
  return { file: basename(path), sha256, scale };
}

/** Like `openLlama`, for known files. */
export async function openLlamaFrom(
  options: HostedLlamaOptions & DeviceOptions,
  context: EngineContext,
): Promise<Engine> {
  const { devices, mainGpu, ...hosted } = options;
  const { embeddingContexts: nativeCalls } = hosted;
  const own = context.environment;
  const environment = { ...own, ...visibleDevices({ devices, mainGpu }, own) };
  const opening = openHostedEngine({
    kind: "llama",
    options: JSON.parse(JSON.stringify(hosted)),
    context: { ...context, environment },
    nativeCalls,
  });
  return opening.catch((error: unknown) => {
    throw gpuFailure(error) ?? error;
  });
}

/** The error of a host that the library for GPUs ended, with what helps; undefined for others. */
function gpuFailure(error: unknown): SluiceError | undefined {
  if (!(error instanceof EndedEarly) || !/CUDA error|ggml[-_]vulkan/.test(error.message)) return;
  const hint = /out of memory/.test(error.message) ? fullGpuHint : gpuHint;
  return errorFromRecord({ ...error.toJSON(), hint });
}

/**
 * The environment variables that show an engine host its GPUs, the main one first; none if the job
 * does not name GPUs, or if the worker was given its devices.
 *
 * @param environment that of the worker.
 * @throws SluiceError `JOB_INVALID` if `mainGpu` is not one of the devices.
 * @example
 * visibleDevices({ devices: [0, 2], mainGpu: 1 }, {}).CUDA_VISIBLE_DEVICES; // "2,0"
 */
export function visibleDevices(
  { devices, mainGpu }: DeviceOptions,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  if (devices === undefined) {
    if (mainGpu === undefined) return {};
    const field = "model.mainGpu";
    const problem = "it is the place in model.devices, which is not given";
    throw new SluiceError("JOB_INVALID", `${field}: ${problem}`, { field });
  }
  const ordered = mainFirst(devices, mainGpu);
  return assignedDevices(environment) === undefined ? visibilityOf(ordered) : {};
}
