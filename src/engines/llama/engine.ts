import type { Engine, EngineContext } from "../engine.ts";
import { openHostedEngine } from "../host/client.ts";
import type { LlamaModelOptions } from "../model-options.ts";
import { resolveModel } from "../models/models.ts";
import { locateEnginePackage } from "../packages/packages.ts";
import type { HostedLlamaOptions } from "./hosted-llama.ts";

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
  const { path } = await resolveModel(options.name, context, { download: true });
  const { entry } = await locateEnginePackage("llama", context, { install: true });
  return openLlamaFrom({ ...options, modelPath: path, modulePath: entry }, context);
}

/** As `openLlama`, of files that are known. */
export async function openLlamaFrom(
  options: HostedLlamaOptions,
  context: EngineContext,
): Promise<Engine> {
  const { modelPath, modulePath, sequences, contextTokens, threads, batchTokens } = options;
  const set = { modelPath, modulePath, sequences, contextTokens, threads, batchTokens };
  return openHostedEngine({ kind: "llama", options: JSON.parse(JSON.stringify(set)), context });
}
