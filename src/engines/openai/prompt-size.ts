import type { InferenceRequest } from "../../foundation/inference.ts";

const word = /\S+/g;

/**
 * A number of tokens that a prompt surely has, without the server's tokenizer: its words, since a
 * tokenizer cuts text at white space before anything else. The true number is usually a third more,
 * and far more in languages that set no spaces.
 *
 * @param enough counting ends here.
 */
export function leastTokens(
  { messages, prompt = "" }: Pick<InferenceRequest, "messages" | "prompt">,
  enough: number,
): number {
  const texts = messages?.map(({ content }) => content) ?? [prompt];
  let words = 0;
  for (const text of texts) {
    for (const _ of text.matchAll(word)) if (++words >= enough) return words;
  }
  return words;
}
