import {
  greedyParameters,
  type InferenceRequest,
  type SamplingParameters,
} from "../../../src/foundation/inference.ts";

/** A request of a text, greedy unless changed. */
export function requestOf(
  prompt: string,
  changes: Partial<SamplingParameters> = {},
): InferenceRequest {
  const parameters: SamplingParameters = {
    ...greedyParameters,
    maxNewTokens: 8,
    seed: 1,
    ...changes,
  };
  return { prompt, parameters, origin: { index: 0, promptName: "prompt" } };
}
