import { SluiceError } from "../../../foundation/errors.ts";
import type { InferenceRequest, TooLongPolicy } from "../../../foundation/inference.ts";
import type { TransformersModelOptions } from "../options.ts";
import type { Encoding, Model, Tokenizer } from "../transformers-js.ts";
import { textOf } from "./asked-text.ts";
import type { CostedItem, ModelParts, Task, TaskResult } from "./task.ts";

/** The limits of a text. */
export interface EncodeBounds {
  /** Most tokens of a text, including special ones around it. */
  maxTokens: number;
  onTooLong: TooLongPolicy;
}

/** Most tokens of a text by the model's own statement. */
export function modelMaxTokens({ config }: Pick<Model, "config">, tokenizer: Tokenizer): number {
  const positions = config.max_position_embeddings ?? config.n_positions;
  return Math.min(tokenizer.model_max_length, positions ?? Number.POSITIVE_INFINITY);
}

/**
 * Cuts tokens of a text to its limit. Special tokens around the text stay: they are those of
 * `whole` beyond `content`.
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

/** A task over texts: tokenizes them, within the limits of the job and the model. */
export abstract class TextTask<Item> implements Task<Item> {
  protected readonly parts: ModelParts;
  protected readonly options: TransformersModelOptions;
  readonly #maxTokens: number;

  constructor(parts: ModelParts, options: TransformersModelOptions) {
    this.parts = parts;
    this.options = options;
    this.#maxTokens = options.maxInputTokens ?? modelMaxTokens(parts.model, parts.tokenizer);
  }

  abstract itemOf(request: InferenceRequest): CostedItem<Item>;

  abstract run(
    batch: readonly Item[],
    signal: AbortSignal,
  ): Promise<readonly (TaskResult | Error)[]>;

  async close(): Promise<void> {
    await this.parts.model.dispose();
  }

  /**
   * The text of a request as tokens.
   *
   * @throws SluiceError `COLUMN_INVALID`, `PROMPT_TOO_LONG`.
   */
  protected encoded(request: InferenceRequest): CostedItem<Encoding> {
    const text = textOf(request, this.options.textColumn);
    const item = this.bounded(this.parts.tokenizer._encode_plus(text, {}), text, request);
    return { item, cost: { tokens: item.input_ids.length } };
  }

  /**
   * Tokens of a text with its additions, cut in the text if that is allowed.
   *
   * @throws SluiceError `PROMPT_TOO_LONG`.
   */
  protected bounded(whole: Encoding, text: string, request: InferenceRequest): Encoding {
    const maxTokens = this.#maxTokens;
    if (whole.input_ids.length <= maxTokens) return whole;
    const { onTooLong = request.onTooLong ?? "fail" } = this.options;
    const { tokenizer } = this.parts;
    const content = tokenizer._encode_plus(text, { add_special_tokens: false }).input_ids;
    return withinBounds(whole, content, { maxTokens, onTooLong });
  }
}
