import {
  greedyParameters,
  type InferenceRequest,
  type SamplingParameters,
} from "../../src/foundation/inference.ts";

/** A request to go on with a text, greedy unless changed. */
export function complete(
  prompt: string,
  parameters: Partial<SamplingParameters> = {},
  rest: Partial<InferenceRequest> = {},
): InferenceRequest {
  return {
    prompt,
    parameters: { ...greedyParameters, maxNewTokens: 24, seed: 7, ...parameters },
    ...rest,
  };
}
