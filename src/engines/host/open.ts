import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json } from "../../foundation/json.ts";
import type { HostedEngine, HostedKind, OpenHosted } from "./protocol.ts";

/** Opens the implementation of `kind` in this process, which is an engine host. */
export async function openHosted(kind: HostedKind, options: Json): Promise<HostedEngine> {
  if (kind === "llama") {
    const { openHostedLlama } = await import("../llama/hosted-llama.ts");
    return openHostedLlama(options);
  }
  if (kind === "predictor") {
    const { openHostedPredictor } = await import("../predictor/hosted-predictor.ts");
    return openHostedPredictor(options);
  }
  if (kind === "stages") {
    const { openHostedStages } = await import("../pipeline/hosted-stages.ts");
    return openHostedStages(options);
  }
  if (kind === "transformers") {
    const { openHostedTransformers } = await import("../transformers/hosted-transformers.ts");
    return openHostedTransformers(options);
  }
  if (kind === "module") return openModule(options);
  throw new SluiceError("PROTOCOL", `unknown kind of engine: ${String(kind)}`);
}

async function openModule(options: Json): Promise<HostedEngine> {
  if (!isJsonObject(options) || typeof options.module !== "string") {
    throw new SluiceError("PROTOCOL", "a hosted module needs its address in options.module");
  }
  const exports = (await import(options.module)) as { openHosted?: OpenHosted };
  if (typeof exports.openHosted !== "function") {
    throw new SluiceError("ENGINE_START_FAILED", `${options.module} does not export openHosted`);
  }
  return exports.openHosted(options);
}
