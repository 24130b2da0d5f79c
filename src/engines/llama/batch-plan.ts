/** A sequence with tokens that wait to be computed. */
export interface PendingSequence {
  sequence: number;
  /** At least 1. */
  pendingTokens: number;
}

/** How many of a sequence's waiting tokens the next pass computes. */
export interface BatchShare {
  sequence: number;
  tokens: number;
}

/**
 * Divides one pass of at most `batchTokens` among sequences: each gets one token, so that none
 * starves behind a long prompt; what is left goes to the longest-waiting prompts, lowest sequence
 * first. Shares come in ascending order of sequence: llama.cpp computes neighbours in one go.
 *
 * @example
 * planBatch([{ sequence: 0, pendingTokens: 1 }, { sequence: 1, pendingTokens: 900 }], 512);
 * // [{ sequence: 0, tokens: 1 }, { sequence: 1, tokens: 511 }]
 */
export function planBatch(waiting: readonly PendingSequence[], batchTokens: number): BatchShare[] {
  const ordered = waiting.toSorted((a, b) => a.sequence - b.sequence).slice(0, batchTokens);
  let left = batchTokens - ordered.length;
  return ordered.map(({ sequence, pendingTokens }) => {
    const extra = Math.min(left, pendingTokens - 1);
    left -= extra;
    return { sequence, tokens: 1 + extra };
  });
}
