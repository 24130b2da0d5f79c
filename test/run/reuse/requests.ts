import {
  type GenerationParameters,
  greedyParameters,
  type InferenceRequest,
} from "../../../src/foundation/inference.ts";

/** A request of a text, greedy unless changed. */
export function requestOf(
  prompt: string,
  changes: Partial<GenerationParameters> = {},
): InferenceRequest {
  const parameters: GenerationParameters = {
    ...greedyParameters,
    maxNewTokens: 8,
    seed: 1,
    ...changes,
  };
  return { prompt, parameters, origin: { index: 0, promptName: "prompt" } };
}
