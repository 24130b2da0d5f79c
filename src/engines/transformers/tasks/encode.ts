import { SluiceError } from "../../../foundation/errors.ts";
import type { TooLongPolicy } from "../../../foundation/inference.ts";
import type { Encoding, Model, Tokenizer } from "../transformers-js.ts";

/** How much of a text is taken. */
export interface EncodeBounds {
  /** Most tokens of a text, with the special ones around it. */
  maxTokens: number;
  onTooLong: TooLongPolicy;
}

/** Most tokens that a model takes of a text, as far as it says so. */
export function modelMaxTokens({ config }: Pick<Model, "config">, tokenizer: Tokenizer): number {
  const positions = config.max_position_embeddings ?? config.n_positions;
  return Math.min(tokenizer.model_max_length, positions ?? Number.POSITIVE_INFINITY);
}

/**
 * Brings tokens of a text within bounds. Special tokens around the text stay: they are those that
 * `whole` has beyond `content`.
 *
 * @param content tokens of the part that may be cut, without special ones.
 * @throws SluiceError `PROMPT_TOO_LONG`.
 * @example
 * const bounds = { maxTokens: 4, onTooLong: "truncate-right" } as const;
 * withinBounds({ input_ids: [0, 7, 8, 9, 2] }, [7, 8, 9], bounds); // { input_ids: [0, 7, 8, 2] }
 */
export function withinBounds(
  whole: Encoding,
  content: readonly number[],
  { maxTokens, onTooLong }: EncodeBounds,
): Encoding {
  const excess = whole.input_ids.length - maxTokens;
  if (excess <= 0) return whole;
  const start = placeOf(content, whole.input_ids);
  if (onTooLong === "fail" || start < 0 || excess >= content.length) {
    const detail = `${whole.input_ids.length} tokens, and the model takes ${maxTokens}`;
    const hint = "set model.onTooLong (of a prompt: onTooLong) to truncate-right, or cut the text";
    throw new SluiceError("PROMPT_TOO_LONG", detail, { hint });
  }
  const end = start + content.length;
  const [from, to] = onTooLong === "truncate-left" ? [start, start + excess] : [end - excess, end];
  const cut = (values: readonly number[]) => [...values.slice(0, from), ...values.slice(to)];
  const { input_ids, token_type_ids } = whole;
  return {
    input_ids: cut(input_ids),
    ...(token_type_ids && { token_type_ids: cut(token_type_ids) }),
  };
}

function placeOf(content: readonly number[], ids: readonly number[]): number {
  for (let start = 0; start + content.length <= ids.length; start++) {
    if (content.every((id, at) => ids[start + at] === id)) return start;
  }
  return -1;
}
