import { SluiceError } from "../../foundation/errors.ts";
import { contentText, type InferenceRequest, type Usage } from "../../foundation/inference.ts";
import type { OpenaiModelOptions } from "./options.ts";

type ContextOptions = Pick<OpenaiModelOptions, "contextTokens">;

/**
 * Refuses a prompt that cannot fit, so that it is not paid for.
 *
 * @throws SluiceError `PROMPT_TOO_LONG` if it has more words than the context has tokens.
 */
export function checkWords(request: InferenceRequest, { contextTokens }: ContextOptions): void {
  if (contextTokens === undefined) return;
  const words = leastTokens(request, contextTokens + 1);
  if (words <= contextTokens) return;
  const detail = `more than ${contextTokens} words, contextTokens is ${contextTokens}`;
  throw new SluiceError("PROMPT_TOO_LONG", detail, { hint: "shorten the prompt" });
}

/**
 * Refuses the answer of a server that cut the prompt silently, if the job gives the context's size.
 *
 * @throws SluiceError `PROMPT_TOO_LONG`.
 */
export function checkContext(usage: Usage, { contextTokens }: ContextOptions): void {
  const { promptTokens } = usage;
  if (contextTokens === undefined || promptTokens <= contextTokens) return;
  const detail = `${promptTokens} tokens, contextTokens is ${contextTokens}`;
  const error = new SluiceError("PROMPT_TOO_LONG", detail, { hint: "shorten the prompt" });
  error.paid = usage;
  throw error;
}

const word = /\S+/g;

/**
 * A lower bound of a prompt's tokens, without the server's tokenizer: its words, since a tokenizer
 * cuts text at white space before anything else. The true number is usually a third more, and far
 * more in languages without spaces.
 *
 * @param enough counting ends here.
 */
export function leastTokens(
  { messages, prompt = "" }: Pick<InferenceRequest, "messages" | "prompt">,
  enough: number,
): number {
  const texts = messages?.map(({ content }) => contentText(content)) ?? [prompt];
  let words = 0;
  for (const text of texts) {
    for (const _ of text.matchAll(word)) if (++words >= enough) return words;
  }
  return words;
}
