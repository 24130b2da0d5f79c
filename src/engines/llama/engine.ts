import type { Engine, EngineContext } from "../engine.ts";
import { openHostedEngine } from "../host/client.ts";
import type { LlamaModelOptions } from "../model-options.ts";
import type { ResolvedModel } from "../models/model-context.ts";
import { resolveModel } from "../models/models.ts";
import { locateEnginePackage } from "../packages/packages.ts";
import { type DeviceOptions, visibleDevices } from "./devices.ts";
import type { HostedLlamaOptions } from "./hosted-llama.ts";
import { measuredContextTokens, measuredSequences } from "./repack/speed.ts";
import { type ChooseOptions, chooseWeights, machineName, ownWeights } from "./repack/weights.ts";

/**
 * Opens the engine that computes GGUF models on this machine with node-llama-cpp. The model and the
 * package are fetched where they are not here yet. It lives in an engine host; see
 * `openHostedEngine` for what its death means.
 *
 * @throws SluiceError as `resolveModel`, `locateEnginePackage` and `openHostedEngine`.
 */
export async function openLlama(
  options: LlamaModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const model = await resolveModel(options.name, context, { download: true });
  const { entry: modulePath } = await locateEnginePackage("llama", context, { install: true });
  const { path: modelPath, weights } =
    options.repack === "off"
      ? ownWeights(model)
      : await chooseWeights(weightsOptions(model, modulePath, options, context), context);
  return openLlamaFrom({ ...options, modelPath, modulePath, weights }, context);
}

function weightsOptions(
  model: ResolvedModel,
  modulePath: string,
  { threads, gpuLayers, devices, mainGpu }: LlamaModelOptions,
  context: EngineContext,
): ChooseOptions {
  const shape = { sequences: measuredSequences, contextTokens: measuredContextTokens, threads };
  const measured = { ...shape, gpuLayers, devices, mainGpu, modulePath };
  return {
    model,
    machine: machineName(modulePath, gpuLayers),
    open: (modelPath) => openLlamaFrom({ ...measured, modelPath }, context),
  };
}

/** As `openLlama`, of files that are known. */
export async function openLlamaFrom(
  options: HostedLlamaOptions & DeviceOptions,
  context: EngineContext,
): Promise<Engine> {
  const { devices, mainGpu, ...hosted } = options;
  const own = context.environment;
  const environment = { ...own, ...visibleDevices({ devices, mainGpu }, own) };
  return openHostedEngine({
    kind: "llama",
    options: JSON.parse(JSON.stringify(hosted)),
    context: { ...context, environment },
  });
}
