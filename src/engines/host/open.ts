import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";
import type { HostedEngine, HostedKind } from "./protocol.ts";

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
  throw new SluiceError("PROTOCOL", `unknown kind of engine: ${String(kind)}`);
}
