import {
  type GenerationParameters,
  greedyParameters,
  type InferenceRequest,
} from "../../src/foundation/inference.ts";

/** A request to go on with a text, greedy unless changed. */
export function complete(
  prompt: string,
  parameters: Partial<GenerationParameters> = {},
  rest: Partial<InferenceRequest> = {},
): InferenceRequest {
  return {
    prompt,
    parameters: { ...greedyParameters, maxNewTokens: 24, seed: 7, ...parameters },
    ...rest,
  };
}
