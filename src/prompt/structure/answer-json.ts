import { SluiceError } from "../../foundation/errors.ts";
import type { Answer } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";

/**
 * The JSON of an answer; models that write freely put it into a fenced block.
 *
 * @throws SluiceError `ANSWER_INVALID`, with words for the model.
 */
export function answerJson({ text, finishReason, tokens }: Answer): Json {
  const fenced = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?\s*```\s*$/.exec(text)?.[1];
  try {
    return JSON.parse(fenced ?? text) as Json;
  } catch (cause) {
    const problem =
      finishReason === "length"
        ? `it was cut off after ${tokens} tokens, before the JSON was complete`
        : `it is not JSON (${(cause as Error).message})`;
    throw new SluiceError("ANSWER_INVALID", problem);
  }
}
