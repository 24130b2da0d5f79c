import type { GenerationParameters, TooLongPolicy } from "../foundation/inference.ts";
import type { Engine, EngineContext } from "./engine.ts";
import type { ModelOptions } from "./model-options.ts";
import { unsupportedOptions as unsupportedByOpenai } from "./openai/unsupported.ts";

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
 * What a job asks of its engine that the engine cannot do, as `key` or `key: value` of the job
 * file. Planning refuses it as `UNSUPPORTED`, before anything is asked.
 *
 * @param policies what the job's prompts do when they are too long.
 */
export function unsupportedOptions(
  options: ModelOptions,
  generation: Pick<GenerationParameters, "topK" | "minP" | "repetitionPenalty">,
  policies: Iterable<TooLongPolicy>,
): string[] {
  return options.engine === "openai" ? unsupportedByOpenai(options, generation, policies) : [];
}
