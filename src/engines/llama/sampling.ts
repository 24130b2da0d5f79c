import { type GenerationParameters, greedyParameters } from "../../foundation/inference.ts";
import type { SamplerConfig } from "./node-llama-cpp.ts";

/** Tokens before the next one that the penalties look at, as llama.cpp does. */
export const penaltyWindowTokens = 64;

/**
 * Added to the logits of the allowed tokens: far beyond any logit, and small enough that a float
 * still tells neighbours apart.
 */
const allowedBias = 1000;

/** The sampler settings that hold for a whole answer. */
export function samplerConfig(parameters: GenerationParameters): SamplerConfig {
  const { temperature, topK, topP, minP, seed } = parameters;
  return { temperature, topK, topP, minP, seed: seed >>> 0 };
}

const penalties = ["repetitionPenalty", "presencePenalty", "frequencyPenalty"] as const;

/** True when a parameter makes the next token depend on the tokens before it. */
export function hasPenalties(parameters: GenerationParameters): boolean {
  return penalties.some((name) => parameters[name] !== greedyParameters[name]);
}

/** The settings of penalties for the token that follows `tokens`. */
export function penaltyConfig(
  parameters: GenerationParameters,
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

/** The settings that let none of `tokens` be chosen. */
export function noneOf(tokens: Uint32Array): Partial<SamplerConfig> {
  return {
    tokenBiasKeys: tokens,
    tokenBiasValues: new Float32Array(tokens.length).fill(Number.NEGATIVE_INFINITY),
  };
}

/** The settings that let only `tokens` be chosen. */
export function onlyTokens(tokens: Uint32Array): Partial<SamplerConfig> {
  return {
    tokenBiasKeys: tokens,
    tokenBiasValues: new Float32Array(tokens.length).fill(allowedBias),
  };
}
