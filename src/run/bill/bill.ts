import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import type { Commit } from "../attempt/commit.ts";
import { type LeadTime, leadTimes } from "../coordinate/coordinator.ts";
import type { RunContext } from "../run-context.ts";
import { addPaidAnswers, noPaidAnswers, type PaidAnswers, type Prices, usdOf } from "./costs.ts";
import { lostAnswers } from "./journaled.ts";
import type { RepeatedTask } from "./repeated.ts";

/**
 * The cost of a run, retries included. Tokens are those of every answer that reached a journal,
 * whether a result holds it or not; answers from a cache or an equal request cost none.
 */
export interface Bill extends Usage {
  /** US dollars by `prices`; null without them. */
  usd: number | null;
  /** The sealed job's prices; null if it named none. */
  prices: NonNullable<Prices> | null;
  /** Total seconds of the committed attempts. */
  busySeconds: number;
  /** Seconds in which a coordinator led or a task was worked on, without pauses between calls. */
  wallSeconds: number;
  paidTwice: {
    /** Wrong answers, which were requested again or given up. */
    invalid: PaidAnswers;
    /** Answers of superseded attempts, for rows that the committed attempt also answered. */
    lost: PaidAnswers;
  };
}

/** The facts for a bill, from the commits of one generation. */
export class BillTally {
  #usage: Usage = noUsage;
  #invalid: PaidAnswers = noPaidAnswers;
  #busySeconds = 0;
  readonly #spans: TimeSpan[] = [];

  add({ usage, invalid, busySeconds, startedAt, committedAt }: Commit): void {
    this.#usage = addUsage(this.#usage, usage);
    if (invalid) this.#invalid = addPaidAnswers(this.#invalid, invalid);
    this.#busySeconds += busySeconds;
    this.#spans.push([Date.parse(startedAt), Date.parse(committedAt)]);
  }

  /**
   * The bill at this moment, for the coordinator that seals.
   *
   * @param repeated tasks with journals of more than one attempt: they may hold lost answers.
   * @param earlier bill of the generation before, and when that was sealed.
   */
  async bill(
    context: Pick<RunContext, "storage" | "plan" | "clock">,
    repeated: ReadonlyMap<number, RepeatedTask>,
    prices: Prices,
    earlier?: EarlierBill,
  ): Promise<Bill> {
    const { storage, clock } = context;
    let lost = earlier?.lost ?? noPaidAnswers;
    for (const [task, { committed, attempts }] of repeated) {
      if (attempts.length < 2) continue;
      lost = addPaidAnswers(lost, await lostAnswers(context, task, committed, attempts));
    }
    const spans = [...this.#spans, ...leadSpans(await leadTimes(storage), clock.now())];
    const fresh = spans.filter(([startMs]) => startMs >= (earlier?.sealedMs ?? 0));
    const usage = addUsage(this.#usage, lost);
    const bill: Bill = {
      ...usage,
      usd: usdOf(usage, prices),
      prices: prices ?? null,
      busySeconds: this.#busySeconds,
      wallSeconds: coveredSeconds(fresh),
      paidTwice: { invalid: this.#invalid, lost },
    };
    return earlier ? addBills(earlier.bill, bill) : bill;
  }
}

/** Cost of the generations before a retry. */
export interface EarlierBill {
  bill: Bill;
  /** Answers of retries that were abandoned since. */
  lost: PaidAnswers;
  /** Milliseconds since 1970. */
  sealedMs: number;
}

function addBills(earlier: Bill, later: Bill): Bill {
  const usage = addUsage(earlier, later);
  const { invalid, lost } = earlier.paidTwice;
  // Each at the prices of its time; if they were unknown then, at today's.
  const usd =
    earlier.usd === null || later.usd === null
      ? usdOf(usage, later.prices ?? undefined)
      : earlier.usd + later.usd;
  return {
    ...usage,
    usd,
    prices: later.prices,
    busySeconds: earlier.busySeconds + later.busySeconds,
    wallSeconds: earlier.wallSeconds + later.wallSeconds,
    paidTwice: {
      invalid: addPaidAnswers(invalid, later.paidTwice.invalid),
      lost: addPaidAnswers(lost, later.paidTwice.lost),
    },
  };
}

/** From one moment to another, in milliseconds since 1970. */
type TimeSpan = readonly [startMs: number, endMs: number];

/** Seconds that at least one of the spans covers. */
export function coveredSeconds(spans: readonly TimeSpan[]): number {
  let coveredMs = 0;
  let reachedMs = Number.NEGATIVE_INFINITY;
  for (const [startMs, endMs] of [...spans].sort(([a], [b]) => a - b)) {
    coveredMs += Math.max(0, endMs - Math.max(startMs, reachedMs));
    reachedMs = Math.max(reachedMs, endMs);
  }
  return Math.round(coveredMs) / 1000;
}

/** The times of coordinators as spans; the last one still leads at `nowMs`. */
export function leadSpans(times: readonly LeadTime[], nowMs: number): TimeSpan[] {
  return times.map(({ startedMs, seconds }, at) => {
    const endMs = startedMs + seconds * 1000;
    return [startedMs, at === times.length - 1 ? Math.max(endMs, nowMs) : endMs];
  });
}
