/** Of a refusal that follows on another: what is left of the ceiling. */
const fallFactor = 0.85;
/** Refusals that an answer pays for: one in 200 or so is what finding the ceiling may cost. */
const creditPerAnswer = 0.006;
const maxCredit = 3;
const minCredit = -3;
/** What a try above the last refusal must have in hand. */
const creditOfTry = 1;

/** A rise has gone well when no refusal came in so many times the time that one takes … */
const refusalTimes = 10;
/** … and in so long at least, in milliseconds. */
const leastRoundMs = 1000;

/** What is known of a request when it was sent. */
export interface Sent {
  /** Requests at the endpoint then, itself included. */
  inFlight: number;
  /** Its number among all that were sent. */
  number: number;
  atMs: number;
}

/**
 * How many requests at once an endpoint takes before it refuses some (429), found by additive
 * increase and multiplicative decrease, with a memory.
 *
 * The first refusal in a while says where the ceiling is: below what was in flight. One more,
 * before as many were answered as the ceiling holds, says that it fell: then by 15 % at a time. Up
 * it goes by 1, 2, 4 … for each such round that passes without a refusal; above the last refusal
 * only where enough answers have paid for the one that this may cost, so that refusals stay below
 * one in a hundred also where the ceiling never moves.
 *
 * Sources: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
 * avoidance", 1989; the memory of the last loss as in CUBIC (RFC 9438).
 */
export class RefusalCeiling {
  #ceiling = Number.POSITIVE_INFINITY;
  /** Requests at which it refused last; a round above it without a refusal proves it wrong. */
  #refusedAt = Number.POSITIVE_INFINITY;
  /** Requests from this number on were sent under the present ceiling. */
  #since = 0;
  #answers = 0;
  /** Answers since the last refusal. */
  #calm = 0;
  /** A rise is under way, or was the last thing that happened: a refusal is no surprise. */
  #isTrying = false;
  /** What the next rise adds, and what is left of the last one. */
  #step = 1;
  #left = 0;
  #credit = creditOfTry;
  /** When the last rise was complete, and how long a refusal takes to come. */
  #roseAtMs = 0;
  #refusalMs = 0;

  /** Requests at once that it is known, or supposed, to take. */
  get ceiling(): number {
    return this.#ceiling;
  }

  /** @param sentSoFar number of requests that were sent up to now. */
  refused({ inFlight, number, atMs }: Sent, sentSoFar: number, nowMs: number): void {
    this.#refusalMs = Math.max(nowMs - atMs, this.#refusalMs * 0.9);
    this.#credit = Math.max(minCredit, this.#credit - 1);
    this.#refusedAt = Math.min(this.#refusedAt, inFlight);
    this.#step = 1;
    this.#left = 0;
    const below = Math.max(1, inFlight - 1);
    if (number < this.#since) {
      // Sent before the ceiling was known, it says the more of where it is.
      this.#ceiling = Math.min(this.#ceiling, below);
      return;
    }
    const isSurprise = !this.#isTrying && this.#ceiling < Number.POSITIVE_INFINITY;
    const hasFallen = isSurprise && this.#calm < this.#ceiling;
    this.#isTrying = false;
    const least = Math.min(this.#ceiling, below);
    this.#ceiling = hasFallen ? Math.max(1, Math.floor(least * fallFactor)) : least;
    this.#since = sentSoFar;
    this.#answers = 0;
    this.#calm = 0;
  }

  /** @param isBound whether the endpoint had as many as the ceiling allows. */
  answered({ number }: Sent, isBound: boolean, nowMs: number): void {
    this.#credit = Math.min(maxCredit, this.#credit + creditPerAnswer);
    if (number < this.#since) return;
    this.#answers++;
    this.#calm++;
    if (!isBound) return;
    if (this.#left > 0) {
      this.#left--;
      this.#ceiling++;
      // The round that tells whether this was right begins when the rise is complete.
      this.#answers = 0;
      this.#roseAtMs = nowMs;
    } else if (this.#hasGoneWell(nowMs)) this.#rise();
  }

  #hasGoneWell(nowMs: number): boolean {
    if (this.#answers >= this.#ceiling) return true;
    const roundMs = Math.max(leastRoundMs, refusalTimes * this.#refusalMs);
    return this.#isTrying && nowMs - this.#roseAtMs >= roundMs;
  }

  #rise(): void {
    this.#answers = 0;
    this.#isTrying = false;
    if (this.#ceiling >= this.#refusedAt) {
      this.#refusedAt = Number.POSITIVE_INFINITY;
      this.#step = Math.ceil(this.#ceiling / 2);
    }
    const room = this.#refusedAt - 1 - this.#ceiling;
    if (room >= 1) this.#left = Math.min(this.#step, room);
    else if (this.#credit >= creditOfTry) this.#left = 1;
    else return;
    this.#isTrying = true;
    this.#step *= 2;
  }
}
