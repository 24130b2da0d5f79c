import type { Random } from "../../../foundation/random.ts";
import type { Logits } from "./steps.ts";

/** How one token is chosen. */
export interface TokenSampling {
  /** 0 = the likeliest token each time. */
  temperature: number;
  /** Share of probability to sample from; 1 = all. */
  topP: number;
  /** Number of likeliest tokens to sample from; 0 = all. */
  topK: number;
  /** Least probability relative to the likeliest token; 0 = all. */
  minP: number;
}

/**
 * Chooses the next token: the likeliest, or a random one of the likely ones. The first of equally
 * likely tokens counts.
 *
 * @example
 * chooseToken(Float32Array.of(1, 5, 2), { temperature: 0, topP: 1, topK: 0, minP: 0 }, random);
 * // 1
 */
export function chooseToken(logits: Logits, parameters: TokenSampling, random: Random): number {
  if (parameters.temperature === 0) return likeliest(logits);
  const likely = likelyTokens(logits, parameters);
  const total = likely.reduce((sum, { weight }) => sum + weight, 0);
  let left = random.next() * total;
  for (const { token, weight } of likely) {
    left -= weight;
    if (left < 0) return token;
  }
  return likely.at(-1)!.token;
}

function likeliest(logits: Logits): number {
  let best = 0;
  for (let token = 1; token < logits.length; token++) {
    if (logits[token]! > logits[best]!) best = token;
  }
  return best;
}

interface Weighed {
  token: number;
  /** Probability relative to the likeliest token. */
  weight: number;
}

/** The tokens to sample from, the likeliest first, in the order of the warpers. */
function likelyTokens(logits: Logits, parameters: TokenSampling): Weighed[] {
  const { temperature, topK, topP, minP } = parameters;
  const highest = logits[likeliest(logits)]!;
  const weighed: Weighed[] = [];
  for (let token = 0; token < logits.length; token++) {
    const weight = Math.exp((logits[token]! - highest) / temperature);
    if (weight > 0 && weight >= minP) weighed.push({ token, weight });
  }
  const isWhole = topK === 0 && topP === 1;
  if (isWhole) return weighed;
  weighed.sort((one, other) => other.weight - one.weight);
  const kept = topK === 0 ? weighed : weighed.slice(0, topK);
  if (topP === 1) return kept;
  let left = topP * kept.reduce((sum, { weight }) => sum + weight, 0);
  const end = kept.findIndex(({ weight }) => {
    left -= weight;
    return left <= 0;
  });
  return end < 0 ? kept : kept.slice(0, end + 1);
}
