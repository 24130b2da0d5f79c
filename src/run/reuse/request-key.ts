import { sha256Hex } from "../../foundation/hashing.ts";
import type { GenerationParameters, InferenceRequest } from "../../foundation/inference.ts";
import { canonicalJson, type Json } from "../../foundation/json.ts";

/**
 * True where asking the same again would give the same: nothing is sampled, or it is under a seed
 * that somebody wrote down. (A seed that was drawn does not ask for equal answers to equal rows.)
 */
export function isRepeatable({ parameters, file, rows }: InferenceRequest): boolean {
  if (rows !== undefined) return false;
  // A file may hold something else by then.
  return file === undefined && areRepeatable(parameters);
}

/** `isRepeatable` of a request of words. */
export function areRepeatable({ temperature, explicit }: GenerationParameters): boolean {
  return temperature === 0 || explicit?.includes("seed") === true;
}

/**
 * What decides the answer to a request, as 64 hex digits: the model, what it reads, and how it
 * answers, and the row where the engine reads that. Not its index, the prompt's name or the place
 * in a list.
 *
 * @param model says which model answers, weights included, as canonical JSON.
 */
export function requestKey(model: string, request: InferenceRequest): string {
  const { messages, prompt, onTooLong = "fail", slottedLine, structure } = request;
  const { embed, row, tools, toolChoice = null, parallelToolCalls = null } = request;
  // Members stand in one order, as they are made in one place: cheaper than canonical JSON.
  const read = JSON.stringify([messages, prompt, onTooLong, slottedLine, structure, embed]);
  const ofTools =
    tools === undefined ? "" : `\n${canonicalJson([tools, toolChoice, parallelToolCalls] as Json)}`;
  const ofRow = row === undefined ? "" : `\n${canonicalJson(row)}`;
  return sha256Hex(
    `${model}\n${decisiveParameters(request.parameters)}\n${read}${ofTools}${ofRow}`,
  );
}

/** Requests of a job share their parameters. */
const parameterTexts = new WeakMap<GenerationParameters, string>();

function decisiveParameters(parameters: GenerationParameters): string {
  let text = parameterTexts.get(parameters);
  if (text === undefined) {
    const { explicit: _explicit, seed, ...others } = parameters;
    text = canonicalJson(others.temperature === 0 ? others : { ...others, seed });
    parameterTexts.set(parameters, text);
  }
  return text;
}
