import type { GenerationParameters, InferenceRequest } from "../../../src/foundation/inference.ts";

/** A request of a text, greedy unless changed. */
export function requestOf(
  prompt: string,
  changes: Partial<GenerationParameters> = {},
): InferenceRequest {
  const parameters: GenerationParameters = {
    maxNewTokens: 8,
    temperature: 0,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    seed: 1,
    stop: [],
    ...changes,
  };
  return { index: 0, promptName: "prompt", prompt, parameters, onTooLong: "fail" };
}
