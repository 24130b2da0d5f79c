import {
  greedyParameters,
  leftOutParameters,
  type SamplingParameters,
  temperatureOf,
} from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { Generation } from "./generation-schema.ts";

/** The keys of a job's `generation`, with the defaults written out. */
export function withGenerationDefaults(generation: Generation): Generation {
  return { ...greedyParameters, stop: [], ...leftOutParameters, ...generation };
}

/**
 * How a job's answers are sampled, with every default filled in.
 *
 * @param seed the run's seed, written or drawn.
 * @param maxNewTokens the limit of an answer if the job names none.
 * @example
 * generationParameters(job.generation, plan.seed).explicit; // ["maxNewTokens", "topP"]
 */
export function generationParameters(
  generation: Generation,
  seed: number,
  maxNewTokens: number = limits.maxNewTokens,
): SamplingParameters {
  const { maxLength, returnFullText: _, useCache: __, doSample: ___, ...sampling } = generation;
  const written = Object.entries({ ...sampling, maxLength }).filter(
    ([, value]) => value !== undefined,
  );
  const explicit = written.map(([name]) => name);
  return {
    ...greedyParameters,
    maxNewTokens,
    // The prompt has at least one token.
    ...(maxLength === undefined ? {} : { maxNewTokens: maxLength - 1 }),
    ...Object.fromEntries(written),
    temperature: temperatureOf(generation),
    seed,
    ...(explicit.length === 0 ? {} : { explicit }),
  };
}

/** Notices about a job's `generation`: values that are accepted without effect. */
export function generationNotices({ doSample, temperature = 0, useCache }: Generation): string[] {
  const notices: string[] = [];
  if (doSample === false && temperature > 0) {
    notices.push(`generation.temperature ${temperature} is not used, because doSample is false`);
  }
  if (useCache !== undefined) {
    notices.push("generation.useCache has no effect: every engine keeps what it computed");
  }
  return notices;
}
