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
    index: 0,
    promptName: "p",
    prompt,
    parameters: { ...greedyParameters, maxNewTokens: 24, seed: 7, ...parameters },
    onTooLong: "fail",
    ...rest,
  };
}
