/** How long one request took, beside what it was. */
export interface TimedRequest {
  durationMs: number;
  /** Its size, see `sizeOf`. */
  size: number;
  /** Requests that were with the endpoint while it was, on the average of its time. */
  meanInFlight: number;
}

/** Tokens of a prompt that take about the time of one token of an answer. */
const promptTokensPerToken = 16;

/** How much there is to do for a request, in tokens of its answer. */
export function sizeOf(promptTokens: number, completionTokens: number): number {
  return completionTokens + promptTokens / promptTokensPerToken;
}

/**
 * How long requests took that were sent in like circumstances: the line of least squares through
 * durations over sizes. It takes the chance of long and short answers out of a comparison.
 */
export class Durations {
  count = 0;
  meanInFlight = 0;
  #size = 0;
  #durationMs = 0;
  // Sums of products of distances from means that move (Welford 1962).
  #sizeSquares = 0;
  #products = 0;
  #durationSquares = 0;

  add({ durationMs, size, meanInFlight }: TimedRequest): void {
    const share = 1 / ++this.count;
    const sizeBefore = size - this.#size;
    const durationBefore = durationMs - this.#durationMs;
    this.#size += sizeBefore * share;
    this.#durationMs += durationBefore * share;
    this.meanInFlight += (meanInFlight - this.meanInFlight) * share;
    this.#sizeSquares += sizeBefore * (size - this.#size);
    this.#products += sizeBefore * (durationMs - this.#durationMs);
    this.#durationSquares += durationBefore * (durationMs - this.#durationMs);
  }

  get meanSize(): number {
    return this.#size;
  }

  /** Milliseconds that a request of this size takes, and the variance of that. */
  ofSize(size: number): { durationMs: number; variance: number } {
    const slope = this.#sizeSquares > 0 ? Math.max(0, this.#products / this.#sizeSquares) : 0;
    const distance = size - this.#size;
    const unexplained = Math.max(0, this.#durationSquares - slope * this.#products);
    const spread = unexplained / Math.max(1, this.count - 2);
    const leverage = slope > 0 ? distance ** 2 / this.#sizeSquares : 0;
    return {
      durationMs: Math.max(this.#durationMs + slope * distance, this.#durationMs / 10, 1e-3),
      variance: spread * (1 / this.count + leverage),
    };
  }
}
