import { Durations, type TimedRequest } from "./durations.ts";

/** An answered request, and the circumstances in which it was sent. */
export interface ClimbedRequest extends TimedRequest {
  /** Wall time. Only its place among the periods counts, which all workers share. */
  admittedAtMs: number;
  endedAtMs: number;
  limitAtAdmission: number;
  /** Whether the endpoint had as many as the limit allows, at its end. */
  wasFull: boolean;
}

/** The higher of the two limits between which it swings, over the lower one. */
const swing = 1.25;
/** Below this slowing, more requests at once are worthwhile, and above the other one, fewer. */
const leastSlowing = 0.85;
const mostSlowing = 0.97;
/** Slowing from one doubling to the next at which doubling ends. */
const rampSlowing = 0.6;
/** Slowing over a long rise that confirms it. */
const provenSlowing = 0.9;
/** Requests that a comparison needs on each side. */
const rampRequests = 8;
const leastRequests = 12;
/** Standard error of a slowing that is good enough to act on; the smallest that is believed. */
const acceptedError = 0.2;
const leastError = 0.03;
/** Growth of the limit, in logarithms, for each unit of slowing below the minimum. */
const gain = 1.5;
/** Longest steps up and down, and the trial step, as natural logarithms. */
const longestRise = 0.7;
const longestFall = 0.7;
const trial = 0.04;
const longestTrial = 0.12;
/** If requests take this many times as long as before at the same limit, it is cut at once, … */
const strainAtMost = 1.8;
/** … to no less than this; measured over this number of requests. */
const leastCut = 0.5;
const strainMemory = 32;
/** Remaining part of the limit when the endpoint fails under it. */
const overloadFactor = 0.7;
/** Weight of earlier evidence, if the limit has hardly moved since. */
const keptEvidence = 0.3;
const longStep = 0.1;
/** Length of a period in the time of the faster quarter of requests, and the shortest one. */
const periodFactor = 1.5;
const leastPeriodMs = 200;
/** Periods without comparable requests become longer, up to this, and shorter again. */
const lengthening = 1.2;
const shortening = 0.97;
const longestStretch = 8;
/** Sides that are closer than this logarithm are not worth a comparison. */
const leastDistance = 0.05;
/** A rise by this factor is checked once more. */
const farRise = 1.3;
/** The first of three periods is low, the others are high; the last one is for late answers. */
const periodsOfCycle = 3;
/** Part of a period in which a comparable request must begin, and its longest usual duration. */
const comparedBegin = 0.5;
const comparedDuration = 0.9;
/** If something else sets the limit, one cycle in this number tries whether fewer would do. */
const restCycles = 16;
/** Requests over which the usual size is taken. */
const sizeMemory = 500;
/** How fast the quartile of durations follows, as a logarithm. */
const quartileStep = 0.025;

/**
 * Finds how many requests at once give the most goodput, only from how long they take.
 *
 * An endpoint's goodput is the number of requests in flight over their duration (Little's law).
 * With more of them in flight, the *slowing*
 *
 *     s = d ln(duration) / d ln(in flight)
 *
 * is 0 if they do not affect each other, 1 if the endpoint's goodput stays the same, and above 1 if
 * it falls; goodput grows by 1 − s. The best limit is where s approaches 1 from below: there the
 * endpoint is fully used and hardly has a queue.
 *
 * To measure s, the limit swings between two values a quarter apart, and durations of requests of
 * the same size are compared between low and high periods. The swing makes it robust: sizes, speeds
 * and other users' load change over time, and affect both alike. Periods follow the wall clock, so
 * that several workers of one endpoint swing together and each sees the effect of all. At first the
 * limit doubles, like TCP's slow start, by one for each answer.
 *
 * There are two guards. If requests suddenly take almost twice as long, the limit is cut before any
 * comparison. And a rise by a third is checked once more against all durations from before it, so
 * that lucky steps do not add up.
 *
 * Source: gradient limits as in Netflix's concurrency-limits; comparing two rates in turn as in PCC
 * (Dong et al., NSDI 2015); slow start after Jacobson 1988.
 */
export class GoodputClimb {
  readonly #maxLimit: number;
  #isRamping = true;
  /** While doubling: where this doubling began. After that: the lower limit. */
  #base: number;
  #rampLimit: number;
  /** The most that anything else allows. */
  #cap: number;
  #low = new Durations();
  #high = new Durations();
  #periodMs = leastPeriodMs;
  #cycle = 0;
  /** Slowings near this limit, each with its weight. */
  #evidence = { sum: 0, weight: 0 };
  #slowing = 0;
  /** Consecutive trial steps that checked whether fewer would do. */
  #trials = 0;
  /** Durations of all requests that ended in this cycle, and in the previous one. */
  #all = new Durations();
  #usual: Durations | undefined;
  /** Recent durations relative to that one. */
  #taken = { actualMs: 0, expectedMs: 0 };
  #usualSize = 0;
  #sizes = 0;
  #quartileMs = 0;
  /** How much longer periods are than usual, and the number of compared requests in this cycle. */
  #stretch = 1;
  #compared = 0;
  /** Durations from before the limit rose. */
  #anchor: Durations | undefined;

  constructor(startLimit: number, maxLimit: number) {
    this.#maxLimit = maxLimit;
    this.#cap = maxLimit;
    this.#base = Math.min(startLimit, maxLimit);
    this.#rampLimit = this.#base;
  }

  /** Its present limit of requests in flight. */
  limit(nowMs: number): number {
    if (this.#isRamping) return Math.min(this.#cap, this.#rampLimit);
    const { low, high } = this.#levels(this.#cycleAt(nowMs));
    return Math.floor(nowMs / this.#periodMs) % periodsOfCycle === 0 ? low : high;
  }

  /** The limit of something else. While that alone holds it back, the limit follows its rise. */
  cap(most: number): void {
    const cap = Math.min(most, this.#maxLimit);
    const wasHeld = !this.#isRamping && this.#base >= this.#cap;
    this.#cap = cap;
    if (this.#isRamping && this.#rampLimit > cap) this.#swingFrom(cap);
    else if (this.#base > cap || (wasHeld && this.#slowing < leastSlowing)) this.#base = cap;
  }

  answered(request: ClimbedRequest): void {
    this.#noteUsual(request);
    if (this.#isRamping) this.#ramp(request);
    else this.#compare(request);
  }

  /** Request after request failed: begins again, lower. */
  overloaded(): void {
    this.#isRamping = true;
    this.#base = Math.max(1, Math.floor(this.#base * overloadFactor));
    this.#rampLimit = this.#base;
    this.#forget();
  }

  #noteUsual({ size, durationMs }: TimedRequest): void {
    this.#sizes = Math.min(this.#sizes + 1, sizeMemory);
    this.#usualSize += (size - this.#usualSize) / this.#sizes;
    // A moving quartile: it rests where three of four are above it.
    if (this.#quartileMs === 0) this.#quartileMs = durationMs;
    this.#quartileMs *= Math.exp(durationMs > this.#quartileMs ? quartileStep : -3 * quartileStep);
  }

  #ramp(request: ClimbedRequest): void {
    const top = Math.min(this.#maxLimit, 2 * this.#base);
    // Requests sent before the limit was lowered say nothing about the present one.
    if (request.limitAtAdmission > top) return;
    const isKnown = this.#low.count >= rampRequests;
    if (request.wasFull && isKnown && this.#rampLimit < top) this.#rampLimit++;
    if (request.limitAtAdmission < 1.5 * this.#base) {
      if (this.#high.count === 0) this.#low.add(request);
      return;
    }
    this.#high.add(request);
    const found = this.#found(rampRequests, 2 * rampRequests);
    if (!found || found.error > acceptedError) return;
    this.#slowing = found.slowing;
    if (found.slowing > rampSlowing) {
      // Goodput grew by 1 − s: the knee is that much above the level before.
      const rise = Math.max(0, 1 - found.slowing) * found.distance;
      return this.#swingFrom(this.#low.meanInFlight * Math.exp(rise));
    }
    if (1.5 * this.#rampLimit > this.#maxLimit) return this.#swingFrom(this.#rampLimit);
    this.#low = this.#high;
    this.#high = new Durations();
    this.#base = this.#rampLimit;
  }

  #swingFrom(base: number): void {
    this.#isRamping = false;
    this.#base = Math.max(1, base);
    this.#forget();
    this.#setPeriod();
  }

  #forget(): void {
    this.#evidence = { sum: 0, weight: 0 };
    this.#trials = 0;
    this.#clear();
  }

  #clear(): void {
    this.#low = new Durations();
    this.#high = new Durations();
  }

  // A power of the root of 2: workers with similar durations have the same periods.
  #setPeriod(): void {
    const wantedMs = Math.max(leastPeriodMs, periodFactor * this.#stretch * this.#quartileMs);
    this.#periodMs = 2 ** (Math.ceil(2 * Math.log2(wantedMs)) / 2);
  }

  #cycleAt(timeMs: number): number {
    return Math.floor(timeMs / this.#periodMs / periodsOfCycle);
  }

  #levels(cycle: number): { low: number; high: number } {
    const low = Math.max(1, Math.round(this.#base));
    const high = Math.max(low + 1, Math.round(low * swing));
    if (high <= this.#cap) return { low, high };
    const isResting = this.#slowing < leastSlowing && cycle % restCycles !== 0;
    const lowered = isResting ? this.#cap : Math.floor(this.#cap / swing);
    return { low: Math.max(1, lowered), high: this.#cap };
  }

  /**
   * When the knee falls far, an endpoint is as slow at a low limit as at a high one until its
   * backlog is done: this is detected by its former speed.
   */
  #noteStrain({ durationMs, size }: TimedRequest): void {
    if (this.#usual === undefined) return;
    const taken = this.#taken;
    const fade = 1 - 1 / strainMemory;
    taken.actualMs = fade * taken.actualMs + durationMs;
    taken.expectedMs = fade * taken.expectedMs + this.#usual.ofSize(size).durationMs;
    const strain = taken.actualMs / taken.expectedMs;
    if (strain < strainAtMost) return;
    this.#base = Math.max(1, this.#base * Math.max(leastCut, 1 / strain));
    this.#usual = undefined;
    this.#forget();
  }

  #compare(request: ClimbedRequest): void {
    this.#noteStrain(request);
    const cycle = this.#cycleAt(request.endedAtMs);
    if (cycle !== this.#cycle) {
      this.#conclude();
      this.#setPeriod();
      this.#noteUsualDurations();
      this.#cycle = this.#cycleAt(request.endedAtMs);
    }
    this.#all.add(request);
    const side = this.#sideOf(request);
    const { low, high } = this.#levels(this.#cycle);
    if (low === high || side === undefined) return;
    side.add(request);
    this.#compared++;
  }

  #noteUsualDurations(): void {
    if (this.#all.count < leastRequests) return;
    // Too long for the period according to its size, or in step with it.
    const { low, high } = this.#levels(this.#cycle);
    const change = this.#compared === 0 && low < high ? lengthening : shortening;
    this.#stretch = Math.min(longestStretch, Math.max(1, change * this.#stretch));
    this.#compared = 0;
    this.#usual = this.#all;
    this.#all = new Durations();
    const usualMs = strainMemory * this.#usual.ofSize(this.#usualSize).durationMs;
    this.#taken = { actualMs: usualMs, expectedMs: usualMs };
    this.#checkRise(this.#usual);
  }

  /** Checks a long rise against durations from before it: lucky small steps might add up. */
  #checkRise(now: Durations): void {
    const before = this.#anchor ?? now;
    if (now.meanInFlight < farRise * before.meanInFlight) {
      if (now.meanInFlight <= before.meanInFlight) this.#anchor = now;
      return;
    }
    const { slowing, error } = slowingOf(before, now, this.#usualSize);
    if (error > acceptedError / 2) return;
    if (slowing < provenSlowing) {
      this.#anchor = now;
      return;
    }
    this.#base = before.meanInFlight;
    this.#forget();
  }

  /**
   * Where a request is compared, if at all. The choice must not depend on durations, else the slow
   * side would lose its slow ones; it depends on start and size.
   */
  #sideOf({ admittedAtMs, endedAtMs, size }: ClimbedRequest): Durations | undefined {
    const began = admittedAtMs / this.#periodMs;
    const period = Math.floor(began);
    if (began - period > comparedBegin) return undefined;
    if (Math.floor(endedAtMs / this.#periodMs) - period > 1) return undefined;
    if (this.#isLong(size)) return undefined;
    return [this.#low, this.#high][period % periodsOfCycle];
  }

  /** Whether a request of this size probably takes longer than a period. */
  #isLong(size: number): boolean {
    const usual = this.#usual;
    if (usual === undefined) return false;
    return usual.ofSize(size).durationMs > comparedDuration * this.#periodMs;
  }

  /** At the end of a high and a low period. A few requests are kept until there are more. */
  #conclude(): void {
    const found = this.#found(leastRequests, leastRequests);
    if (found === undefined) return;
    this.#clear();
    const weight = 1 / (found.error ** 2 + leastError ** 2);
    const evidence = this.#evidence;
    evidence.sum += weight * found.slowing;
    evidence.weight += weight;
    const error = 1 / Math.sqrt(evidence.weight);
    if (error > acceptedError) return;
    this.#slowing = evidence.sum / evidence.weight;
    const step = this.#stepFor(this.#slowing, error);
    this.#base = Math.min(this.#cap, Math.max(1, this.#base * Math.exp(step)));
    const kept = Math.abs(step) > longStep ? 0 : keptEvidence;
    evidence.sum *= kept;
    evidence.weight *= kept;
  }

  /** Steps as long as they are surely right; between the two bounds nothing is changed. */
  #stepFor(slowing: number, error: number): number {
    if (slowing < leastSlowing) {
      this.#trials = 0;
      return Math.min(longestRise, Math.max(trial, gain * (leastSlowing - slowing - error)));
    }
    if (slowing <= mostSlowing) {
      this.#trials = 0;
      return 0;
    }
    const sure = slowing - 1 - error;
    // A queue costs only time: it is reduced with growing steps.
    const tried = Math.min(longestTrial, trial * 2 ** this.#trials++);
    return -Math.min(longestFall, Math.max(tried, sure));
  }

  /** Slowing between the low and the high side; undefined if there is too little to compare. */
  #found(leastLow: number, leastHigh: number): Slowing | undefined {
    const [low, high] = [this.#low, this.#high];
    if (low.count < leastLow || high.count < leastHigh) return undefined;
    const size = Math.min(this.#usualSize, 2 * Math.max(low.meanSize, high.meanSize));
    const found = slowingOf(low, high, size);
    // The caller has too few requests to fill the limit.
    return found.distance > leastDistance ? found : undefined;
  }
}

interface Slowing {
  slowing: number;
  /** Its standard error. */
  error: number;
  /** The logarithmic distance of the two numbers of requests in flight. */
  distance: number;
}

function slowingOf(few: Durations, many: Durations, size: number): Slowing {
  const distance = Math.log(many.meanInFlight / few.meanInFlight);
  const [before, after] = [few.ofSize(size), many.ofSize(size)];
  const variance =
    before.variance / before.durationMs ** 2 + after.variance / after.durationMs ** 2;
  return {
    slowing: Math.log(after.durationMs / before.durationMs) / distance,
    error: Math.sqrt(variance) / distance,
    distance,
  };
}
