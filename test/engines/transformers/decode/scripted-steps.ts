import type { Logits, Steps } from "../../../../src/engines/transformers/decode/steps.ts";

/** What may follow a text of tokens, as probabilities by token; what is left out is impossible. */
export type Grammar = (
  tokens: readonly number[],
  row: number,
) => Readonly<Record<number, number | undefined>>;

/** A model that goes by a rule, and notes the rows that it was asked for. */
export class ScriptedSteps implements Steps {
  /** Rows of each step, from the first on. */
  readonly widths: number[] = [];
  readonly #grammar: Grammar;
  readonly #vocabulary: number;
  #rows: { source: number; tokens: number[] }[];

  constructor(rows: number, vocabulary: number, grammar: Grammar) {
    this.#grammar = grammar;
    this.#vocabulary = vocabulary;
    this.#rows = Array.from({ length: rows }, (_, source) => ({ source, tokens: [] }));
  }

  begin(): Promise<Logits[]> {
    return this.#logits();
  }

  next(parents: readonly number[], tokens: readonly number[]): Promise<Logits[]> {
    this.#rows = parents.map((parent, at) => {
      const { source, tokens: before } = this.#rows[parent]!;
      return { source, tokens: [...before, tokens[at]!] };
    });
    return this.#logits();
  }

  async #logits(): Promise<Logits[]> {
    this.widths.push(this.#rows.length);
    return this.#rows.map(({ source, tokens }) => {
      const logits = new Float32Array(this.#vocabulary).fill(Number.NEGATIVE_INFINITY);
      for (const [token, probability] of Object.entries(this.#grammar(tokens, source))) {
        logits[Number(token)] = Math.log(probability!);
      }
      return logits;
    });
  }
}
