import { noBeams, type ParameterSupport } from "../parameter-support.ts";

/** The fake engine takes what any engine takes; most of it does nothing to its answers. */
export const fakeSupport: ParameterSupport = Object.freeze({
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
