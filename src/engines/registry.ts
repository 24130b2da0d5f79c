import type { GenerationParameters, TooLongPolicy } from "../foundation/inference.ts";
import type { Engine, EngineContext } from "./engine.ts";
import type { DeviceOptions } from "./llama/devices.ts";
import type { ModelOptions } from "./model-options.ts";
import { apiKey } from "./openai/api-key.ts";
import {
  compatibleSupport,
  isOpenaiItself,
  openaiItselfSupport,
  unsupportedPolicies,
} from "./openai/unsupported.ts";
import {
  fullSupport,
  type ParameterSupport,
  type Unsupported,
  unsupportedParameters,
} from "./parameter-support.ts";

/**
 * Opens the engine that `options` names. Its code is loaded now and not before, so that a run pays
 * only for the engine it uses.
 *
 * @throws SluiceError what the engine says when it cannot be opened.
 * @example
 * const engine = await openEngine(modelOptions.parse({ engine: "fake" }), context);
 */
export async function openEngine(options: ModelOptions, context: EngineContext): Promise<Engine> {
  switch (options.engine) {
    case "fake":
      return (await import("./fake/engine.ts")).openFake(options, context);
    case "openai":
      return (await import("./openai/engine.ts")).openOpenai(options, context);
    case "llama":
      return (await import("./llama/engine.ts")).openLlama(options, context);
  }
}

/**
 * Refuses an engine whose environment lacks what it needs; nothing is opened.
 *
 * @throws SluiceError `ENV_MISSING` where `apiKeyEnv` names a variable that is not set,
 *   `JOB_INVALID` where it holds what cannot be a key.
 */
export function assertEnvironment(
  options: ModelOptions,
  environment: EngineContext["environment"],
): void {
  if (options.engine === "openai") apiKey(options, environment);
}

/** Which generation parameters the engine that `options` names takes. */
export function supportOf(options: ModelOptions): ParameterSupport {
  switch (options.engine) {
    case "openai":
      return isOpenaiItself(options.baseUrl) ? openaiItselfSupport : compatibleSupport;
    // The fake engine stands in for any other, though most of them do nothing to its answers.
    case "fake":
    case "llama":
      return fullSupport;
  }
}

/**
 * What a job asks of its engine that the engine cannot do. Planning refuses it as `UNSUPPORTED`,
 * before anything is asked.
 *
 * @param policies what the job's prompts do when they are too long.
 */
export function unsupportedOptions(
  options: ModelOptions,
  parameters: GenerationParameters,
  policies: Iterable<TooLongPolicy>,
): Unsupported[] {
  const found = unsupportedParameters(supportOf(options), parameters);
  return options.engine === "openai" ? [...found, ...unsupportedPolicies(policies)] : found;
}

/** What the engine that `options` names is to have of GPUs; undefined where it uses none. */
export function deviceOptions(options: ModelOptions): DeviceOptions | undefined {
  return options.engine === "llama" && options.gpuLayers !== 0 ? options : undefined;
}

/** Whether the engine gives vectors of texts: requests with `embed`. */
export function embeds(options: ModelOptions): boolean {
  return options.engine === "llama";
}

/**
 * Whether prompts that begin alike are cheaper one after another: the engine, or the server behind
 * it, keeps what it computed.
 */
export function keepsPrefixes(options: ModelOptions): boolean {
  return options.engine !== "fake";
}
