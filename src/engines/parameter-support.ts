import { isDeepStrictEqual } from "node:util";
import {
  greedyParameters,
  leftOutParameters,
  type SamplingParameters,
} from "../foundation/inference.ts";

const { temperature: _temperature, topP: _topP, ...refusable } = greedyParameters;

/** Parameters that some engine lacks, each with its neutral value. */
const neutral = Object.freeze({
  ...refusable,
  ...leftOutParameters,
  maxLength: undefined,
  lengthPenalty: undefined,
  earlyStopping: undefined,
  prependBos: undefined,
});

/** A parameter that not every engine takes; all take the others. */
export type OptionalParameter = keyof typeof neutral;

/** What an engine takes: true, or the advice for the refusal. */
export type ParameterSupport = Readonly<Record<OptionalParameter, true | string>>;

/** A request of a job that its engine cannot fulfil. */
export interface Unsupported {
  /** `key` or `key: value` of the job file. */
  option: string;
  /** The advice. */
  hint: string;
}

/** The support of engines that follow one sequence of tokens. */
const noBeams = "leave it out, or take engine transformers: it searches with beams";

/** The support of an engine that takes every parameter. */
export const fullSupport: ParameterSupport = Object.freeze({
  topK: true,
  minP: true,
  repetitionPenalty: true,
  presencePenalty: true,
  frequencyPenalty: true,
  stop: true,
  maxLength: true,
  ignoreEos: true,
  numReturnSequences: true,
  numBeams: noBeams,
  lengthPenalty: noBeams,
  earlyStopping: noBeams,
  logprobs: true,
  prependBos: true,
});

/**
 * The parameters with an effect that an engine lacks.
 *
 * @example
 * unsupportedParameters(fullSupport, { ...parameters, numBeams: 4 })[0].option;
 * // "generation.numBeams"
 */
export function unsupportedParameters(
  support: ParameterSupport,
  parameters: Pick<SamplingParameters, OptionalParameter>,
): Unsupported[] {
  const found: Unsupported[] = [];
  for (const [name, hint] of Object.entries(support) as [OptionalParameter, true | string][]) {
    const value = parameters[name];
    if (hint === true || value === undefined || isDeepStrictEqual(value, neutral[name])) continue;
    found.push({ option: `generation.${name}`, hint });
  }
  return found;
}
