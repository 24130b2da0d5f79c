/** A sequence with tokens to compute. */
export interface PendingSequence {
  sequence: number;
  /** Position of the first waiting token. */
  start: number;
  /** At least 1. */
  pendingTokens: number;
}

/** How many of a sequence's waiting tokens the next pass computes. */
export interface BatchShare {
  sequence: number;
  tokens: number;
}

export interface BatchLimits {
  batchTokens: number;
  /** From this number of tokens on, another kernel computes a sequence's part of a batch. */
  blockTokens: number;
}

/** The batches of one pass, in the order in which they are computed; either may be empty. */
export interface PassPlan {
  /** Whole blocks of long prompts. */
  blocks: BatchShare[];
  /** Less than a block of each sequence. */
  rest: BatchShare[];
}

/**
 * Divides one pass among sequences, in batches of at most `batchTokens`. Each sequence in the
 * second batch gets a token of it, so that none starves behind a long prompt; the rest goes to the
 * longest-waiting prompts, lowest sequence first. Shares come in ascending order of sequence:
 * llama.cpp computes neighbours in one go.
 *
 * Kernels differ in rounding. Only a token's place in its own sequence decides whether it is
 * computed in a whole block, so neighbours change no answer.
 *
 * @example
 * const decoding = { sequence: 0, start: 90, pendingTokens: 1 };
 * const prompt = { sequence: 1, start: 0, pendingTokens: 200 };
 * planPass([decoding, prompt], { batchTokens: 512, blockTokens: 64 });
 * // blocks: [{ sequence: 1, tokens: 192 }]
 * // rest: [{ sequence: 0, tokens: 1 }, { sequence: 1, tokens: 8 }]
 */
export function planPass(waiting: readonly PendingSequence[], limits: BatchLimits): PassPlan {
  const { batchTokens } = limits;
  const blockTokens =
    limits.blockTokens > batchTokens ? Number.POSITIVE_INFINITY : limits.blockTokens;
  const ordered = waiting.toSorted((a, b) => a.sequence - b.sequence);
  const blocks: BatchShare[] = [];
  const short: PendingSequence[] = [];
  let left = batchTokens;
  for (const { sequence, start, pendingTokens } of ordered) {
    const whole = start % blockTokens === 0 ? wholeBlocks(pendingTokens, blockTokens) : 0;
    const tokens = Math.min(whole, wholeBlocks(left, blockTokens));
    if (tokens > 0) blocks.push({ sequence, tokens });
    left -= tokens;
    const after = { sequence, start: start + tokens, pendingTokens: pendingTokens - tokens };
    if (tokens === whole && after.pendingTokens > 0) short.push(untilBlock(after, blockTokens));
  }
  return { blocks, rest: divide(short.slice(0, batchTokens), batchTokens) };
}

function wholeBlocks(tokens: number, blockTokens: number): number {
  return Math.floor(tokens / blockTokens) * blockTokens || 0;
}

/** Tokens before a block: all waiting ones, or those missing until blocks begin. */
function untilBlock(waits: PendingSequence, blockTokens: number): PendingSequence {
  if (waits.pendingTokens < blockTokens) return waits;
  return { ...waits, pendingTokens: blockTokens - (waits.start % blockTokens) };
}

function divide(waiting: readonly PendingSequence[], batchTokens: number): BatchShare[] {
  let left = batchTokens - waiting.length;
  return waiting.map(({ sequence, pendingTokens }) => {
    const extra = Math.min(left, pendingTokens - 1);
    left -= extra;
    return { sequence, tokens: 1 + extra };
  });
}

/**
 * The sequences of a batch that llama.cpp would compute with a single token and no neighbour, for
 * which it has other kernels. It takes neighbouring sequences together, as many tokens of each as
 * all of them have, and then the rest in the same way.
 *
 * @param shares in ascending order of sequence.
 * @example
 * lonelySequences([{ sequence: 0, tokens: 1 }, { sequence: 1, tokens: 2 }]); // [1]
 */
export function lonelySequences(shares: readonly BatchShare[]): number[] {
  const lonely: number[] = [];
  let left = shares;
  while (left.length > 0) {
    const together = neighbours(left)[0]!;
    const tokens = Math.min(...together.map((share) => share.tokens));
    if (together.length === 1 && tokens === 1) lonely.push(together[0]!.sequence);
    const after = together.map((share) => ({ ...share, tokens: share.tokens - tokens }));
    left = [...after.filter((share) => share.tokens > 0), ...left.slice(together.length)];
  }
  return lonely;
}

/** A GPU computes so many tokens more in the time that one more go takes. */
const freeTokensOfGpu = 16;

/**
 * Idle sequences that compute a token which nobody needs, so that llama.cpp takes the sequences
 * on both sides of them in one go. On an H200, 15 took 9.0 ms in two goes, and 16 took 4.4 ms in
 * one. On a CPU tokens are dear: a model of 135 million parameters on two cores took 115 ms for 8
 * and 7 sequences, and 107 for 16, but 23 for two alone, and 30 for three. So there a gap is filled
 * with an eighth as many tokens as there are sequences on both sides. Beside sequences that all
 * have more than one token it saves nothing: the first token of each would be a go of its own.
 *
 * @param shares in ascending order of sequence.
 * @example
 * const shares = [0, 1, 3, 9].map((sequence) => ({ sequence, tokens: 1 }));
 * gapsToFill(shares, false); // []
 * gapsToFill(shares, true); // [2, 4, 5, 6, 7, 8]
 */
export function gapsToFill(shares: readonly BatchShare[], isOnGpu: boolean): number[] {
  const filled: number[] = [];
  let before: { end: number; size: number } | undefined;
  for (const group of neighbours(shares)) {
    const start = group[0]!.sequence;
    const size = group.length;
    const isShort = group.some(({ tokens }) => tokens === 1);
    const gap = before && isShort ? start - before.end : Number.POSITIVE_INFINITY;
    const paid = Math.floor(((before?.size ?? 0) + size) / 8);
    const isFilled = gap <= Math.max(paid, isOnGpu ? freeTokensOfGpu : 0);
    for (let left = isFilled ? gap : 0; left > 0; left--) filled.push(start - left);
    const together = isFilled ? before!.size + gap + size : size;
    before = isShort ? { end: start + size, size: together } : undefined;
  }
  return filled;
}

/** The shares of neighbouring sequences, together. */
function neighbours(shares: readonly BatchShare[]): BatchShare[][] {
  const groups: BatchShare[][] = [];
  for (const share of shares) {
    const last = groups.at(-1);
    if (last?.at(-1)?.sequence === share.sequence - 1) last?.push(share);
    else groups.push([share]);
  }
  return groups;
}
