/** The duration of one request, with its circumstances. */
export interface TimedRequest {
  durationMs: number;
  /** Its size, see `sizeOf`. */
  size: number;
  /** The average number of requests in flight during it. */
  meanInFlight: number;
}

/** Tokens of a prompt that take about the time of one token of an answer. */
const promptTokensPerToken = 16;

/** The work of a request, in tokens of its answer. */
export function sizeOf(promptTokens: number, completionTokens: number): number {
  return completionTokens + promptTokens / promptTokensPerToken;
}

/**
 * The durations of requests under similar circumstances: the least-squares line of durations over
 * sizes. It removes the chance of long and short answers from a comparison.
 */
export class Durations {
  count = 0;
  meanInFlight = 0;
  #size = 0;
  #durationMs = 0;
  // Sums of products of distances from moving means (Welford 1962).
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

  /** Milliseconds of a request of this size, with the variance. */
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
