import type { Random } from "../../../foundation/random.ts";
import type { GeneratedRow, Sequence, Steps } from "./steps.ts";
import { chooseToken, type TokenSampling } from "./token-choice.ts";

/** A row that is generated token by token. */
export interface SampledRow extends GeneratedRow {
  /** Its source of chance, independent of the rest of the batch. */
  random: Random;
  /** Whether the generated text is complete, such as by a stop text. */
  isEnough?(tokens: readonly number[]): boolean;
}

/**
 * Generates one sequence for each row. A row ends at its own end token and leaves the batch, so
 * that it costs nothing further and nothing follows its end.
 *
 * @param copies sequences of each row, side by side; each has its own entry in `rows`.
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
  // All copies of a row begin with one computed prompt.
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
  parameters: TokenSampling;
  endTokens: ReadonlySet<number>;
  /** Consecutive rows with a common prompt. */
  copies: number;
}
