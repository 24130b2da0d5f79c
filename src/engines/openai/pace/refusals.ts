/** The remaining part of the ceiling after a repeated refusal. */
const fallFactor = 0.85;
/** Share of the places that a refused trial gives up, for this number of rounds. */
const givenUpShare = 0.02;
const givenUpRounds = 3;
/**
 * Answers that pay for one refusal. The smaller the ceiling, the more, so that callers of one
 * endpoint try it equally often, whatever their shares are: a refusal hits the larger share more
 * often, and so the shares become equal.
 */
const creditPerRound = 0.144;
const maxCreditPerAnswer = 0.06;
const minCreditPerAnswer = 0.003;
const maxCredit = 3;
const minCredit = -3;
/** What a trial above the last refusal must have in credit. */
const creditOfTry = 1;

/** A rise was successful after this many times the duration of a refusal without one, … */
const refusalTimes = 10;
/** … and after at least this time, in milliseconds. */
const leastRoundMs = 1000;

/** The facts about a request when it was sent. */
export interface Sent {
  /** Requests at the endpoint then, including itself. */
  inFlight: number;
  /** Its number among all sent ones. */
  number: number;
  atMs: number;
}

/**
 * How many requests at once an endpoint takes before it refuses some (429), found by additive
 * increase and multiplicative decrease, with a memory.
 *
 * The first refusal after some time shows the ceiling: below the number in flight. Another one,
 * before as many answers as the ceiling holds, shows that it fell: then by 15 % at a time. It rises
 * by 1, 2, 4 … for each such round without a refusal; above the last refusal only if enough answers
 * have paid for the one that this may cost, so that refusals stay below one in a hundred even if
 * the ceiling never moves.
 *
 * Equally many refusals under a much lower ceiling have another cause: see `Fall`.
 *
 * Sources: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
 * avoidance", 1989; the memory of the last loss as in CUBIC (RFC 9438).
 */
export class RefusalCeiling {
  #ceiling = Number.POSITIVE_INFINITY;
  /** Requests at the last refusal; a round above it without a refusal proves it wrong. */
  #refusedAt = Number.POSITIVE_INFINITY;
  /** Requests from this number on were sent under the present ceiling. */
  #since = 0;
  #answers = 0;
  /** Answers since the last refusal. */
  #calm = 0;
  /** A rise is in progress, or just ended: a refusal is expected. */
  #isTrying = false;
  /** The size of the next rise, and the rest of the last one. */
  #step = 1;
  #left = 0;
  #credit = creditOfTry;
  /** When the last rise was complete, and how long a refusal takes to arrive. */
  #roseAtMs = 0;
  #refusalMs = 0;
  #fall: Fall | undefined;
  /** Set while refusals have another cause than the number of requests. */
  #chance: ChanceRefusals | undefined;
  /** Places to give up, as soon as it is a whole one. */
  #owed = 0;

  /** Requests at once that the endpoint is known, or supposed, to take. */
  get ceiling(): number {
    return this.#ceiling;
  }

  /** @param sentSoFar number of requests sent up to now. */
  refused(sent: Sent, sentSoFar: number, nowMs: number): void {
    const { inFlight, number } = sent;
    if (this.#isChance()) return;
    if (this.#chance === undefined) this.#noteFall(sent, sentSoFar);
    this.#refusalMs = Math.max(nowMs - sent.atMs, this.#refusalMs * 0.9);
    this.#credit = Math.max(minCredit, this.#credit - 1);
    this.#refusedAt = Math.min(this.#refusedAt, inFlight);
    this.#step = 1;
    this.#left = 0;
    const below = Math.max(1, inFlight - 1);
    if (number < this.#since) {
      // Sent before the ceiling was known, it tells even more about its place.
      this.#ceiling = Math.min(this.#ceiling, below);
      return;
    }
    const isKnown = this.#ceiling < Number.POSITIVE_INFINITY;
    const hasFallen = isKnown && !this.#isTrying && this.#calm < this.#ceiling;
    const least = Math.min(this.#ceiling, below);
    const given = this.#isTrying ? this.#giveUp(least) : 0;
    this.#isTrying = false;
    this.#ceiling = Math.max(1, hasFallen ? Math.floor(least * fallFactor) : least - given);
    this.#since = sentSoFar;
    this.#answers = given > 0 ? (1 - givenUpRounds) * this.#ceiling : 0;
    this.#calm = 0;
    this.#judgeFall();
  }

  /** @param isBound whether the endpoint had as many as the ceiling allows. */
  answered(sent: Sent, isBound: boolean, nowMs: number): void {
    const { number } = sent;
    const earned = Math.min(maxCreditPerAnswer, creditPerRound / this.#ceiling);
    this.#credit = Math.min(maxCredit, this.#credit + Math.max(minCreditPerAnswer, earned));
    this.#chance?.note(false);
    if (this.#chance?.isOver) this.#chance = undefined;
    this.#fall?.answered(sent);
    this.#judgeFall();
    if (number < this.#since) return;
    this.#answers++;
    this.#calm++;
    if (!isBound) return;
    if (this.#left > 0) {
      this.#left--;
      this.#ceiling++;
      // The round that tests this begins when the rise is complete.
      this.#answers = 0;
      this.#roseAtMs = nowMs;
    } else if (this.#hasGoneWell(nowMs)) this.#rise();
  }

  /**
   * Places that a refused trial gives up for a while: otherwise others who share the endpoint find
   * none free, because a caller immediately takes its own again.
   */
  #giveUp(ceiling: number): number {
    this.#owed += givenUpShare * ceiling;
    const given = Math.floor(this.#owed);
    this.#owed -= given;
    return given;
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

  /** Whether a refusal came by chance, without consequences. */
  #isChance(): boolean {
    if (this.#chance === undefined) return false;
    this.#chance.note(true);
    if (!this.#chance.isExceeded) return true;
    this.#chance.settle();
    this.#credit = minCredit;
    return false;
  }

  #noteFall(sent: Sent, sentSoFar: number): void {
    if (this.#fall === undefined || this.#fall.isOver) this.#fall = new Fall(sent, this.#ceiling);
    this.#fall.refused(sent, this.#ceiling, sentSoFar);
  }

  #judgeFall(): void {
    const fall = this.#fall;
    if (!fall?.isInVain) return;
    this.#ceiling = Math.max(this.#ceiling, fall.highest);
    this.#refusedAt = Number.POSITIVE_INFINITY;
    this.#chance = new ChanceRefusals(fall.refusedShare);
    this.#fall = undefined;
    this.#answers = 0;
    this.#calm = 0;
  }
}

/** Outcomes by which a fall is judged, and how many of them are refusals. */
const leastFallOutcomes = 12;
const leastFallRefusals = 4;
/** A ceiling at this share of its former value, over this number; refusals up to this share. */
const farFall = 0.5;
const leastHighest = 8;
const leastRefusedByChance = 0.09;
const mostRefusedByChance = 0.3;
/** A fall is over after this many times its initial number of answers. */
const roundsOfFall = 8;

/**
 * A falling ceiling, from the first refusal on. If a ceiling is the cause, requests under a much
 * lower one are answered, or else nearly all are refused, because each is refused at once and the
 * next one is sent. Otherwise, refusals do not depend on how many are sent.
 */
class Fall {
  /** Most requests at the endpoint when one of these was sent. */
  highest: number;
  readonly #first: number;
  /** Requests from this number on were sent under the much lower ceiling. */
  #since = Number.POSITIVE_INFINITY;
  #answered = 0;
  #refused = 0;
  #age = 0;

  constructor({ number, inFlight }: Sent, ceiling: number) {
    this.highest = Number.isFinite(ceiling) ? Math.max(ceiling, inFlight) : inFlight;
    this.#first = number;
  }

  get isOver(): boolean {
    return this.#age > Math.max(roundsOfFall * this.highest, 2 * leastFallOutcomes);
  }

  get refusedShare(): number {
    return this.#refused / (this.#answered + this.#refused);
  }

  answered({ number, inFlight }: Sent): void {
    this.#age++;
    if (number >= this.#first) this.highest = Math.max(this.highest, inFlight);
    if (number >= this.#since) this.#answered++;
  }

  refused({ number }: Sent, ceiling: number, sentSoFar: number): void {
    if (number >= this.#since) this.#refused++;
    const isFar = this.highest >= leastHighest && ceiling <= farFall * this.highest;
    if (isFar && this.#since === Number.POSITIVE_INFINITY) this.#since = sentSoFar;
  }

  get isInVain(): boolean {
    return (
      this.#answered + this.#refused >= leastFallOutcomes &&
      this.#refused >= leastFallRefusals &&
      this.refusedShare >= leastRefusedByChance &&
      this.refusedShare <= mostRefusedByChance
    );
  }
}

/** Weights of an outcome in the share of refusals, and in the usual one. */
const chanceWeight = 1 / 48;
const usualWeight = 1 / 256;
/** Part of the usual answers that must be left. */
const leastAnswered = 0.75;
/** Below this share, refusals by chance are over. */
const leastChance = 0.02;

/** Refusals that come by chance, and whether there are more than that now. */
class ChanceRefusals {
  #usualShare: number;
  #share: number;

  constructor(share: number) {
    this.#usualShare = share;
    this.#share = share;
  }

  get isExceeded(): boolean {
    return 1 - this.#share < leastAnswered * (1 - this.#usualShare);
  }

  get isOver(): boolean {
    return this.#usualShare < leastChance;
  }

  note(isRefused: boolean): void {
    const outcome = isRefused ? 1 : 0;
    this.#share += chanceWeight * (outcome - this.#share);
    this.#usualShare += usualWeight * (outcome - this.#usualShare);
  }

  /** The excess has been acted upon. */
  settle(): void {
    this.#share = this.#usualShare;
  }
}
