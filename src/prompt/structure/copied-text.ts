import type { Slot, SpanOffsets } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { locateSpan, trimSpan, wholePattern, wordsOf } from "../../foundation/spans.ts";
import { clipped, kindOf } from "../value-text.ts";
import type { CopyShape } from "./shape.ts";

/** The value of a copying field, or what is wrong with it. */
export type CopiedText =
  | { value: string | null; span: SpanOffsets | undefined }
  | { problem: string };

/**
 * Finds a copied text in its source. Letter case and outer punctuation may differ; the value has
 * the source's spelling.
 *
 * @param shape the field's schema; `slot` has the text to copy from.
 */
export function readCopied(value: Json, shape: CopyShape, slot: Slot): CopiedText {
  const { orElse, maxWords, pattern } = shape;
  if (value === orElse) return { value, span: undefined };
  const otherwise = `write ${JSON.stringify(orElse)} where there is nothing to copy`;
  if (typeof value !== "string") {
    return { problem: `must be a text, not ${kindOf(value)}; ${otherwise}` };
  }
  const shown = JSON.stringify(clipped(value));
  const words = wordsOf(trimSpan(value)).length;
  if (words > maxWords) {
    return { problem: `has ${words} words (${shown}), at most ${maxWords} are allowed` };
  }
  const span = locateSpan(slot, value);
  if (span === undefined || span.text === "") {
    const source = JSON.stringify(clipped(slot.source.replace(/\s+/gu, " ").trim()));
    return { problem: `is ${shown}, not copied word by word from ${source}; ${otherwise}` };
  }
  if (pattern !== undefined && !wholePattern(pattern).test(span.text)) {
    return { problem: `is ${shown}, which does not have the form ${pattern}; ${otherwise}` };
  }
  return { value: span.text, span: [span.start, span.end] };
}
