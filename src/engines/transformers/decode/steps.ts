/** How likely each token of the vocabulary is to be next, before `softmax`. */
export type Logits = Float32Array;

/** A batch of rows that a model continues token by token, with a cache of computed positions. */
export interface Steps {
  /** The possible next tokens after each row's prompt. */
  begin(): Promise<Logits[]>;
  /**
   * Continues some rows of the step before. A row may continue several times, or not at all.
   *
   * @param parents places of rows in the step before, one for each new row.
   * @param tokens the next token of each.
   */
  next(parents: readonly number[], tokens: readonly number[]): Promise<Logits[]>;
}

/** Changes the logits after `tokens` in place, by the model's own settings. */
export type LogitsRules = (tokens: readonly number[], logits: Logits) => void;

export interface GeneratedRow {
  /** The beginning of the decoder's text: only `rules` read it. */
  prompt: readonly number[];
  /** Most tokens to generate. */
  maxNewTokens: number;
  rules: LogitsRules;
}

/** The generated answer of a row. */
export interface Sequence {
  /** Generated tokens, with the end token if there is one. */
  tokens: number[];
  /** `stop`: the model ended it; `length`: the limit of tokens did. */
  finishReason: "stop" | "length";
}

/**
 * Logarithms of the probabilities of logits.
 *
 * @example
 * logSoftmax(Float32Array.of(0, 0)); // [-0.693, -0.693]
 */
export function logSoftmax(logits: Logits): Logits {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > highest) highest = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  const shift = highest + Math.log(sum);
  return logits.map((logit) => logit - shift);
}
