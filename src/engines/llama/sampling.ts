import { greedyParameters, type SamplingParameters } from "../../foundation/inference.ts";
import type { SamplerConfig } from "./node-llama-cpp.ts";

/** Last tokens to which the penalties apply, as in llama.cpp. */
export const penaltyWindowTokens = 64;

/**
 * Added to the logits of the allowed tokens: far beyond any logit, and small enough that a float
 * still distinguishes neighbours.
 */
const allowedBias = 1000;

/** The sampler settings for a whole answer. */
export function samplerConfig(parameters: SamplingParameters): SamplerConfig {
  const { temperature, topK, topP, minP, seed } = parameters;
  return { temperature, topK, topP, minP, seed: seed >>> 0 };
}

const penalties = ["repetitionPenalty", "presencePenalty", "frequencyPenalty"] as const;

/** True if a parameter makes the next token depend on earlier tokens. */
export function hasPenalties(parameters: SamplingParameters): boolean {
  return penalties.some((name) => parameters[name] !== greedyParameters[name]);
}

/** The penalties for the token that follows `tokens`. */
export function penaltyConfig(
  parameters: SamplingParameters,
  tokens: readonly number[],
): Partial<SamplerConfig> {
  return {
    repeatPenalty: parameters.repetitionPenalty,
    repeatPenaltyPresencePenalty: parameters.presencePenalty,
    repeatPenaltyFrequencyPenalty: parameters.frequencyPenalty,
    repeatPenaltyMaxTokens: penaltyWindowTokens,
    repeatPenaltyTokens: Uint32Array.from(tokens.slice(-penaltyWindowTokens)),
  };
}

/** The settings that exclude `tokens`. */
export function noneOf(tokens: Uint32Array): Partial<SamplerConfig> {
  return {
    tokenBiasKeys: tokens,
    tokenBiasValues: new Float32Array(tokens.length).fill(Number.NEGATIVE_INFINITY),
  };
}

/** The settings that allow only `tokens`. */
export function onlyTokens(tokens: Uint32Array): Partial<SamplerConfig> {
  return {
    tokenBiasKeys: tokens,
    tokenBiasValues: new Float32Array(tokens.length).fill(allowedBias),
  };
}
