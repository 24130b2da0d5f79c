import { sha256Hex } from "../../foundation/hashing.ts";
import type { GenerationParameters, InferenceRequest } from "../../foundation/inference.ts";
import { canonicalJson, type Json } from "../../foundation/json.ts";

/**
 * True where asking the same again would give the same: nothing is sampled, or it is under a seed
 * that somebody wrote down. (Rows without a written seed share a drawn one, which is no wish that
 * equal rows get equal answers.)
 */
export function isRepeatable({ parameters }: InferenceRequest): boolean {
  return parameters.temperature === 0 || parameters.explicit?.includes("seed") === true;
}

/**
 * What decides the answer to a request, as 64 hex digits: the model, what it reads, and how it
 * answers. Not the row, the prompt's name or the place in a list.
 *
 * @param model says which model answers, weights included.
 */
export function requestKey(model: Json, request: InferenceRequest): string {
  const { messages, prompt, onTooLong, slottedLine, structure, embed } = request;
  const decisive = {
    ...{ model, messages, prompt, onTooLong, slottedLine, structure, embed },
    parameters: decisiveParameters(request.parameters),
  };
  return sha256Hex(canonicalJson(decisive));
}

function decisiveParameters({
  explicit: _explicit,
  seed,
  ...others
}: GenerationParameters): Partial<GenerationParameters> {
  return others.temperature === 0 ? others : { ...others, seed };
}
