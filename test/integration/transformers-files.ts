import { existsSync } from "node:fs";
import { join } from "node:path";
import { findPeer } from "../../bench/peers.ts";
import { modelOptions } from "../../src/engines/model-options.ts";
import { locateEnginePackage } from "../../src/engines/packages/packages.ts";
import type { TransformersModelOptions } from "../../src/engines/transformers/options.ts";
import { greedyParameters, type InferenceRequest } from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { engineContext } from "./llama-files.ts";

export const toyFolder = join(import.meta.dirname, "../golden/toy-m2m100");

/** Adds the engine's package where it is not here: 57 MB, once. @returns why it cannot be had. */
export async function missingTransformers(): Promise<string | undefined> {
  try {
    await locateEnginePackage("transformers", engineContext, { install: true });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** MiniLM, where `npm run peers -- minilm` put it. */
export function findMinilm(): string | undefined {
  const folder = findPeer("minilm");
  return folder !== undefined && existsSync(folder) ? folder : undefined;
}

/** Options of the engine with every default. */
export function transformersOptions(given: JsonObject): TransformersModelOptions {
  const options = modelOptions.parse({ engine: "transformers", ...given });
  return options as TransformersModelOptions;
}

/** The toy translator, on one thread: more would only wait for each other. */
export function toyOptions(given: JsonObject = {}): TransformersModelOptions {
  const toy = { task: "translation", name: join(toyFolder, "model"), threads: 1 };
  return transformersOptions({ ...toy, srcLang: "en", tgtLang: "fr", ...given });
}

/** A request of a job without prompts. */
export function rowRequest(
  index: number,
  row: JsonObject,
  parameters: Partial<InferenceRequest["parameters"]> = {},
): InferenceRequest {
  return {
    parameters: { ...greedyParameters, maxNewTokens: 24, seed: 7, ...parameters },
    row,
    origin: { index, promptName: "row" },
  };
}
