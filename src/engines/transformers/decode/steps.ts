/** How likely each token of the vocabulary is to be next, before `softmax`. */
export type Logits = Float32Array;

/** A batch of rows that a model goes on with, token by token, and keeps what it computed. */
export interface Steps {
  /** What may follow each row's prompt. */
  begin(): Promise<Logits[]>;
  /**
   * Goes on with some rows of the step before. A row may go on several times, or not at all.
   *
   * @param parents places of rows in the step before, one for each row from now on.
   * @param tokens the token that each goes on with.
   */
  next(parents: readonly number[], tokens: readonly number[]): Promise<Logits[]>;
}

/** Changes the logits of what follows `tokens` in place, as the model's own settings say. */
export type LogitsRules = (tokens: readonly number[], logits: Logits) => void;

/** A row to generate for. */
export interface GeneratedRow {
  /** What the decoder begins with: only `rules` look at it. */
  prompt: readonly number[];
  /** Most tokens that are generated. */
  maxNewTokens: number;
  rules: LogitsRules;
}

/** What was generated for a row. */
export interface Sequence {
  /** Generated tokens, with the end token where there is one. */
  tokens: number[];
  /** `stop`: the model ended it; `length`: the limit of tokens did. */
  finishReason: "stop" | "length";
}

/**
 * Logarithms of the probabilities that logits stand for.
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
