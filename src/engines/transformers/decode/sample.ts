import type { Random } from "../../../foundation/random.ts";
import type { GeneratedRow, Sequence, Steps } from "./steps.ts";
import { chooseToken, type SamplingParameters } from "./token-choice.ts";

/** A row that is generated token by token. */
export interface SampledRow extends GeneratedRow {
  /** Where its chance comes from, whatever else is in the batch. */
  random: Random;
  /** Whether what was generated has all that is wanted, as a text that ends it. */
  isEnough?(tokens: readonly number[]): boolean;
}

/**
 * Generates one sequence for each row. A row ends at its own end token and leaves the batch, so
 * that the others are not computed with it, and nothing follows its end.
 *
 * @param copies sequences of each row, side by side; each has a row of its own in `rows`.
 */
export async function sampleRows(
  steps: Steps,
  rows: readonly SampledRow[],
  { parameters, endTokens, copies }: SampleOptions,
  signal: AbortSignal,
): Promise<Sequence[]> {
  const sequences = rows.map((): Sequence => ({ tokens: [], finishReason: "length" }));
  let open = rows.map((_, at) => at);
  const first = await steps.begin();
  // All copies of a row begin with what was computed once.
  let places = open.map((at) => Math.floor(at / copies));
  let logits = places.map((place) => (copies === 1 ? first[place]! : first[place]!.slice()));
  for (;;) {
    const parents: number[] = [];
    const tokens: number[] = [];
    const going: number[] = [];
    for (const [place, at] of open.entries()) {
      const row = rows[at]!;
      const sequence = sequences[at]!;
      row.rules([...row.prompt, ...sequence.tokens], logits[place]!);
      const token = chooseToken(logits[place]!, parameters, row.random);
      sequence.tokens.push(token);
      if (endTokens.has(token) || row.isEnough?.(sequence.tokens)) sequence.finishReason = "stop";
      else if (sequence.tokens.length < row.maxNewTokens) {
        parents.push(places[place]!);
        tokens.push(token);
        going.push(at);
      }
    }
    if (going.length === 0) return sequences;
    signal.throwIfAborted();
    logits = await steps.next(parents, tokens);
    open = going;
    places = going.map((_, place) => place);
  }
}

export interface SampleOptions {
  parameters: SamplingParameters;
  endTokens: ReadonlySet<number>;
  /** Rows that share one prompt, one after another. */
  copies: number;
}
