/** A request's share of a batch, besides its one row. */
export interface BatchCost {
  /** Characters of its prompt; default 0. */
  chars?: number;
  /** Tokens of its prompt: a batch costs its longest request times its rows. Default 0. */
  tokens?: number;
  /** A batch holds requests of one key only, such as a language pair. Default: all alike. */
  key?: string | undefined;
}

/** Limits of a batch. A request beyond a limit goes alone. */
export interface BatchBounds {
  maxRows: number;
  /** Most characters of all its requests together. */
  maxChars?: number | undefined;
  /** Most tokens of a padding model: the longest request times the rows. */
  maxTokens?: number | undefined;
  /**
   * Waiting requests that are searched for those of the oldest one's length. Default 0: requests go
   * in the order of arrival.
   */
  lookAheadRows?: number | undefined;
}

export interface NextBatch {
  /** Places among the waiting requests, ascending; empty only if none waits. */
  places: number[];
  /** Whether the next request would not fit. */
  isFull: boolean;
}

/**
 * Chooses the waiting requests to compute together next. The oldest is always among them, so that a
 * request waits for no more batches than there were requests before it. The others are the next in
 * order or, with `lookAheadRows`, the nearest to it in length. A batch is closed before the request
 * that would exceed a limit.
 *
 * @param waiting the oldest first.
 * @example
 * const waiting = [{ tokens: 9 }, { tokens: 400 }, { tokens: 10 }];
 * nextBatch(waiting, { maxRows: 2, lookAheadRows: 8 }); // { places: [0, 2], isFull: true }
 */
export function nextBatch(waiting: readonly BatchCost[], bounds: BatchBounds): NextBatch {
  const filling = new Filling(bounds);
  for (const place of candidates(waiting, bounds)) {
    if (!filling.takes(waiting[place]!)) return { places: filling.places(), isFull: true };
    filling.add(place, waiting[place]!);
  }
  return { places: filling.places(), isFull: filling.rows >= bounds.maxRows };
}

/**
 * Total characters of a batch, and its tokens padded to the longest request.
 *
 * @example
 * batchCost([{ tokens: 3 }, { tokens: 5 }]).paddedTokens; // 10
 */
export function batchCost(batch: readonly BatchCost[]): { chars: number; paddedTokens: number } {
  let chars = 0;
  let longest = 0;
  for (const cost of batch) {
    chars += cost.chars ?? 0;
    longest = Math.max(longest, cost.tokens ?? 0);
  }
  return { chars, paddedTokens: longest * batch.length };
}

/** How many of the waiting requests, the oldest first, are searched for a batch. */
export function rowsInSight({ maxRows, lookAheadRows = 0 }: BatchBounds): number {
  return Math.max(lookAheadRows, maxRows);
}

/** Places in the order in which they are taken, the oldest first. */
function* candidates(waiting: readonly BatchCost[], bounds: BatchBounds): Iterable<number> {
  const { maxRows, lookAheadRows = 0 } = bounds;
  const oldest = waiting[0];
  if (oldest === undefined) return;
  const inSight = Math.min(waiting.length, rowsInSight(bounds));
  const places: number[] = [];
  for (let place = 0; place < inSight; place++) {
    if (waiting[place]!.key === oldest.key) places.push(place);
  }
  if (lookAheadRows === 0 || places.length <= maxRows) {
    yield* places;
    return;
  }
  const length = lengthOf(oldest);
  const distance = (place: number) => Math.abs(lengthOf(waiting[place]!) - length);
  // The first place has no distance, and a stable sort leaves it first.
  yield* places.sort((one, other) => distance(one) - distance(other));
}

function lengthOf({ tokens, chars = 0 }: BatchCost): number {
  return tokens ?? chars;
}

/** A batch in the making. */
class Filling {
  readonly #bounds: BatchBounds;
  readonly #places: number[] = [];
  #chars = 0;
  #longest = 0;

  constructor(bounds: BatchBounds) {
    this.#bounds = bounds;
  }

  get rows(): number {
    return this.#places.length;
  }

  /** Whether one more request fits; the first always does. */
  takes({ chars = 0, tokens = 0 }: BatchCost): boolean {
    if (this.rows === 0) return true;
    const {
      maxRows,
      maxChars = Number.POSITIVE_INFINITY,
      maxTokens = Number.POSITIVE_INFINITY,
    } = this.#bounds;
    const paddedTokens = Math.max(this.#longest, tokens) * (this.rows + 1);
    return this.rows < maxRows && this.#chars + chars <= maxChars && paddedTokens <= maxTokens;
  }

  add(place: number, { chars = 0, tokens = 0 }: BatchCost): void {
    this.#places.push(place);
    this.#chars += chars;
    this.#longest = Math.max(this.#longest, tokens);
  }

  places(): number[] {
    return this.#places.sort((one, other) => one - other);
  }
}
