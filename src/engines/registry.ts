import type { Engine, EngineContext } from "./engine.ts";
import type { ModelOptions } from "./model-options.ts";

/** Opens the engine that a job's `model` names; only that engine's code is loaded. */
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
