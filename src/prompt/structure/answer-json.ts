import { SluiceError } from "../../foundation/errors.ts";
import { parseWritten, restoredNumbers } from "../../foundation/exact-json.ts";
import type { Answer } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";

/**
 * The JSON of an answer. A model that writes freely puts it into a fenced code block.
 *
 * @throws SluiceError `ANSWER_INVALID`, with words for the model.
 */
export function answerJson({ text, finishReason, tokens }: Answer): Json {
  try {
    return JSON.parse(bareJson(text)) as Json;
  } catch (cause) {
    const problem =
      finishReason === "length"
        ? `it was cut off after ${tokens} tokens, before the JSON was complete`
        : `it is not JSON (${(cause as Error).message})`;
    throw new SluiceError("ANSWER_INVALID", problem);
  }
}

/** The answer's value with its numbers as written, so that no digit is lost. */
export function withDigits(value: Json, { text }: Answer): Json {
  return restoredNumbers(value, parseWritten(bareJson(text))) as Json;
}

function bareJson(text: string): string {
  const trimmed = text.trim();
  if (!trimmed.startsWith(fence) || !trimmed.endsWith(fence)) return text;
  const inside = trimmed.slice(fence.length, -fence.length).replace(/^json/, "");
  const json = inside.trim();
  // The JSON begins on its own line.
  return inside.slice(0, inside.indexOf(json)).includes("\n") ? json : text;
}

const fence = "```";
