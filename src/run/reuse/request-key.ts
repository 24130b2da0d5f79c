import { sha256Hex } from "../../foundation/hashing.ts";
import type { InferenceRequest, SamplingParameters } from "../../foundation/inference.ts";
import { canonicalJson, type Json } from "../../foundation/json.ts";

/**
 * True if the same request would get the same answer: without sampling, or with a written seed. (A
 * drawn seed does not ask for equal answers to equal rows.)
 */
export function isRepeatable({ parameters, file, rows }: InferenceRequest): boolean {
  if (rows !== undefined) return false;
  // The file's content may change.
  return file === undefined && areRepeatable(parameters);
}

/** `isRepeatable` for a request of text. */
export function areRepeatable({ temperature, explicit }: SamplingParameters): boolean {
  return temperature === 0 || explicit?.includes("seed") === true;
}

/**
 * Everything that decides the answer to a request, as 64 hex digits: the model, its input and its
 * parameters, and the row if the engine reads it. Not the row's index, the prompt's name or the
 * place in a list.
 *
 * @param model identifies the model, weights included, as canonical JSON.
 */
export function requestKey(model: string, request: InferenceRequest): string {
  const { messages, prompt, onTooLong = "fail", slottedLine, structure } = request;
  const { embed, row, tools, toolChoice = null, parallelToolCalls = null } = request;
  // Members are in one order, because they are made in one place: cheaper than canonical JSON.
  const read = JSON.stringify([messages, prompt, onTooLong, slottedLine, structure, embed]);
  const ofTools =
    tools === undefined ? "" : `\n${canonicalJson([tools, toolChoice, parallelToolCalls] as Json)}`;
  const ofRow = row === undefined ? "" : `\n${canonicalJson(row)}`;
  return sha256Hex(
    `${model}\n${decisiveParameters(request.parameters)}\n${read}${ofTools}${ofRow}`,
  );
}

/** Requests of a job share their parameters. */
const parameterTexts = new WeakMap<SamplingParameters, string>();

function decisiveParameters(parameters: SamplingParameters): string {
  let text = parameterTexts.get(parameters);
  if (text === undefined) {
    const { explicit: _explicit, seed, ...others } = parameters;
    text = canonicalJson(others.temperature === 0 ? others : { ...others, seed });
    parameterTexts.set(parameters, text);
  }
  return text;
}
