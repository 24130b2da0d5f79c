/** One sequence of the context, as far as the choice needs it. */
export interface SlotView {
  id: number;
  isFree: boolean;
  /** Tokens whose state the sequence holds. */
  cached: readonly number[];
  /** Tokens that a live slot will hold before it answers, including cached ones. */
  planned: readonly number[];
}

/** The slot of a request, and the state that it can take over. */
export interface SlotChoice {
  slot: number;
  /** Sequence to copy from first, if another one holds more of the prompt. */
  copyFrom?: number;
  /** Tokens of the prompt that need not be computed. */
  reused: number;
}

/** Computing fewer tokens is faster than copying a sequence. */
export const minCopiedTokens = 8;

/**
 * How much of `held` tokens a prompt takes over. A block of which only the first tokens are held is
 * computed whole, as without any held tokens: kernels round a block differently from its parts.
 *
 * @example
 * reusedTokens(67, 200, 64); // 64
 * reusedTokens(67, 100, 64); // 67: the prompt ends before that block does
 */
export function reusedTokens(held: number, promptTokens: number, blockTokens: number): number {
  const ofBlock = held % blockTokens;
  const blockStart = held - ofBlock;
  const isWhole = blockStart + blockTokens <= promptTokens;
  return isWhole && ofBlock < minCopiedTokens ? blockStart : held;
}

/** Number of common leading tokens of two texts. */
export function sharedPrefix(a: readonly number[], b: readonly number[]): number {
  const length = Math.min(a.length, b.length);
  let at = 0;
  while (at < length && a[at] === b[at]) at++;
  return at;
}

/**
 * The slot for a prompt, or undefined if it should wait: either no slot is free, or a live one is
 * computing a long prefix of this very prompt, which can be copied soon.
 *
 * Live slots stay contiguous from 0, because llama.cpp computes only neighbouring sequences in one
 * go. Among the free slots below the highest live one, the choice is the one that already holds
 * most of the prompt.
 *
 * @param blockTokens as in `BatchLimits`.
 */
export function chooseSlot(
  slots: readonly SlotView[],
  prompt: readonly number[],
  blockTokens: number,
): SlotChoice | undefined {
  // The last token is always computed: its output gives the first token of the answer.
  const usable = prompt.length - 1;
  const held = (tokens: readonly number[]) => Math.min(usable, sharedPrefix(tokens, prompt));
  const reused = (tokens: number) => reusedTokens(tokens, prompt.length, blockTokens);
  const highestLive = slots.findLastIndex((slot) => !slot.isFree);
  const firstFree = slots.find((slot) => slot.isFree);
  if (firstFree === undefined) return undefined;
  const holes = slots.filter((slot) => slot.isFree && slot.id < highestLive);
  const candidates = holes.length > 0 ? holes : [firstFree];
  const own = best(candidates, (slot) => held(slot.cached));
  const richest = best(slots, (slot) => held(slot.cached));
  const soon = Math.max(...slots.map((slot) => (slot.isFree ? 0 : held(slot.planned))));
  const reachable = Math.max(own.score, richest.score);
  if (soon - reachable >= minCopiedTokens) return undefined;
  if (richest.score - own.score >= minCopiedTokens) {
    return { slot: own.slot.id, copyFrom: richest.slot.id, reused: reused(richest.score) };
  }
  return { slot: own.slot.id, reused: reused(own.score) };
}

/** The first slot with the highest score; there is at least one slot. */
function best(
  slots: readonly SlotView[],
  score: (slot: SlotView) => number,
): { slot: SlotView; score: number } {
  let chosen = { slot: slots[0]!, score: score(slots[0]!) };
  for (const slot of slots.slice(1)) {
    const its = score(slot);
    if (its > chosen.score) chosen = { slot, score: its };
  }
  return chosen;
}
