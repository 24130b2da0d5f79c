import { noBeams, type ParameterSupport } from "../parameter-support.ts";

/** Which generation parameters the llama engine takes. */
export const llamaSupport: ParameterSupport = Object.freeze({
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
  logprobs: true,
  prependBos: true,
});
