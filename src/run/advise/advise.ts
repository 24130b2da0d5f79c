import { limits } from "../../foundation/limits.ts";
import { type Interval, scaled } from "../bill/interval.ts";
import type { Speed } from "./speed.ts";

/** Most workers that are proposed. */
export const maxAdvisedWorkers = 256;

/** The longest shards that are proposed. */
export const maxAdvisedShardMs = 600_000;

/** A longer shard is warned of: too much to lose, and to wait for at the end. */
const maxLikedShardMs = 1_800_000;

/** Assumed cost of a shard beside its rows, in a run on a disk. */
export const shardOverheadMs = 100;

/** The same of a run in an object store. */
const storeShardOverheadMs = 1000;

/** What advice follows from. */
export interface AdviceFacts {
  /** Rows to be asked. */
  rows: number;
  /** Rows of a shard as the job has it now. */
  plannedRowsPerShard: number;
  /** Rows of the largest piece that no shard can divide, as of a compressed file; default 1. */
  uncutRows?: number;
  speed: Speed;
  /** Seconds that a new machine takes before its worker starts: fetching an image, a model. */
  machineStartSeconds: number;
  /** Mean seconds between two preemptions of one machine; undefined = it is never taken away. */
  preemptionEverySeconds?: number;
  /** Where the journals of workers lie: what of them a machine takes with it differs. */
  journal: "disk" | "store";
  deadlineSeconds?: number;
  /** US dollars for a machine with one worker, an hour. */
  usdPerHour?: number;
}

/** What a number of workers means. */
export interface AdviceOption {
  workers: number;
  /** Shards, the same number for each worker but for one. */
  shards: number;
  rowsPerShard: number;
  /** Seconds that a worker is at one shard. */
  shardSeconds: number;
  /** Seconds from the start to the last row. */
  seconds: Interval;
  /** Hours of all machines together. */
  machineHours: number;
  /** Money for the machines; null without a price. */
  usd: Interval | null;
  /** Share of the paid time in which no row advances: starts, preemptions, commits, the end. */
  lostShare: number;
}

/** How large shards and how many workers should be, and what that means. */
export interface Advice {
  proposed: AdviceOption;
  /** False where no number of workers meets the deadline; null where there is none. */
  meetsDeadline: boolean | null;
  /** Other numbers of workers, the proposed one among them, ascending. */
  options: AdviceOption[];
  /** Seconds from the start of a machine to its first row. */
  startSeconds: number;
  /** Seconds of work that a preemption costs, the start of the next machine not counted. */
  lostSecondsPerPreemption: number;
  /** The same where the journal is lost with the machine's disk: half a shard more. */
  lostSecondsWithoutJournal: number;
  warnings: string[];
}

/** What the machines may cost, against the least, so that a run is done sooner. */
const mostExtraCost = 1.1;
/** How much later than the soonest a run may be done that is too late anyway. */
const mostDelay = 1.1;

/**
 * Proposes shards and workers: with a deadline the fewest workers that meet it, by the upper bounds
 * of what was measured and of how many preemptions there are; without one the most whose machines
 * cost a tenth more than the cheapest at most; where a deadline cannot be met, the fewest that are
 * a tenth later than the soonest at most.
 * The formulas and where they come from are in docs/chunks.md:
 *
 *     shard    w = √(2 · C · H),  1/H = 1/T + 1/M,  10 minutes at most
 *     useful   e = exp(−(S + L) / M)
 *     time     M · (exp(S / M) − 1) + ⌈shards / W⌉ · (w + C) / e
 *
 * with C the seconds that a shard costs beside its rows, T the work of one worker, M the mean time
 * between its preemptions, S its start and L the work that a preemption costs. What cannot be cut
 * takes at least its own time.
 */
export function advise(facts: AdviceFacts): Advice {
  const most = Math.max(1, Math.min(maxAdvisedWorkers, facts.rows));
  const all = Array.from({ length: most }, (_, at) => optionOf(facts, at + 1));
  const { proposed, meetsDeadline } = chosen(all, facts);
  return {
    proposed,
    meetsDeadline,
    options: all.filter(
      ({ workers }) => workers === proposed.workers || isShown(workers, proposed),
    ),
    startSeconds: startOf(facts),
    lostSecondsPerPreemption: lostOf(facts, proposed.shardSeconds),
    lostSecondsWithoutJournal: (facts.speed.rowSeconds + proposed.shardSeconds) / 2,
    warnings: warningsOf(proposed, facts, meetsDeadline),
  };
}

/** Powers of two, up to four times what is proposed. */
function isShown(workers: number, proposed: AdviceOption): boolean {
  return Number.isInteger(Math.log2(workers)) && workers <= 4 * proposed.workers;
}

function chosen(
  all: readonly AdviceOption[],
  { deadlineSeconds }: AdviceFacts,
): { proposed: AdviceOption; meetsDeadline: boolean | null } {
  if (deadlineSeconds === undefined) {
    const least = Math.min(...all.map(({ machineHours }) => machineHours));
    const proposed = all.findLast(({ machineHours }) => machineHours <= mostExtraCost * least)!;
    return { proposed, meetsDeadline: null };
  }
  const first = all.find(({ seconds }) => seconds.high <= deadlineSeconds);
  if (first) return { proposed: first, meetsDeadline: true };
  const soonest = Math.min(...all.map(({ seconds }) => seconds.high));
  const proposed = all.find(({ seconds }) => seconds.high <= mostDelay * soonest)!;
  return { proposed, meetsDeadline: false };
}

function optionOf(facts: AdviceFacts, workers: number): AdviceOption {
  const { rows, speed, usdPerHour, uncutRows = 1 } = facts;
  const { estimated, low, high } = speed.secondsPerRow;
  const { shards, rowsPerShard } = shardsOf(facts, workers);
  const secondsAt = (secondsPerRow: number, bound: number) => {
    const shardSeconds = rowsPerShard * secondsPerRow;
    const overhead = overheadOf(facts);
    const turns = Math.ceil(shards / workers) * (shardSeconds + overhead);
    const busy = Math.max(turns, uncutRows * secondsPerRow + overhead);
    const mean = firstStartOf(facts) + busy / usefulShare(facts, shardSeconds);
    const seconds = mean + bound * spreadOf(facts, workers, busy, shardSeconds);
    return Math.min(Math.max(seconds, startOf(facts) + busy), Number.MAX_SAFE_INTEGER);
  };
  const seconds = {
    estimated: secondsAt(estimated, 0),
    low: secondsAt(low, -1),
    high: secondsAt(high, 1),
  };
  const machineHours = (workers * seconds.estimated) / 3600;
  return {
    workers,
    shards,
    rowsPerShard,
    shardSeconds: rowsPerShard * estimated,
    seconds,
    machineHours,
    usd: usdPerHour === undefined ? null : scaled(seconds, (workers * usdPerHour) / 3600),
    lostShare: Math.max(0, 1 - (rows * estimated) / (machineHours * 3600)),
  };
}

/** As many shards for each worker, of about the size that costs least. */
function shardsOf(facts: AdviceFacts, workers: number): { shards: number; rowsPerShard: number } {
  const { rows, speed, preemptionEverySeconds = Infinity } = facts;
  const { estimated: secondsPerRow } = speed.secondsPerRow;
  const share = Math.max(1, Math.ceil(rows / workers));
  const work = share * secondsPerRow;
  // The end, at which half a shard is waited for, counts as a preemption at its time.
  const horizon = work === 0 ? 0 : 1 / (1 / work + 1 / preemptionEverySeconds);
  const best = Math.sqrt(2 * overheadOf(facts) * horizon);
  const seconds = Math.min(best, maxAdvisedShardMs / 1000);
  const wanted = secondsPerRow === 0 ? share : Math.max(1, Math.round(seconds / secondsPerRow));
  const most = Math.max(1, Math.min(wanted, share, limits.maxTaskRows));
  const rowsPerShard = Math.max(1, Math.ceil(share / Math.ceil(share / most)));
  return { shards: Math.max(1, Math.ceil(rows / rowsPerShard)), rowsPerShard };
}

/** Seconds that a shard costs beside its rows. */
function overheadOf({ journal }: AdviceFacts): number {
  const overheadMs = journal === "store" ? storeShardOverheadMs : shardOverheadMs;
  return overheadMs / 1000;
}

function startOf({ speed, machineStartSeconds }: AdviceFacts): number {
  return speed.startSeconds + machineStartSeconds;
}

/** Mean time until a machine has lived as long as a start takes: some are lost before. */
function firstStartOf(facts: AdviceFacts): number {
  const { preemptionEverySeconds: every } = facts;
  return every === undefined ? startOf(facts) : every * Math.expm1(startOf(facts) / every);
}

/**
 * Work that a preemption costs, in seconds of the worker. Rows in flight are half done. What was
 * answered is in the journal; of one in a store, half of what a flush puts there is lost.
 */
function lostOf({ speed, journal }: AdviceFacts, shardSeconds: number): number {
  const atRisk = journal === "store" ? Math.min(shardSeconds, limits.maxSegmentAgeMs / 1000) : 0;
  return (speed.rowSeconds + atRisk) / 2;
}

/** Share of a machine's life in which rows advance, where lives are exponentially distributed. */
function usefulShare(facts: AdviceFacts, shardSeconds: number): number {
  const { preemptionEverySeconds } = facts;
  if (preemptionEverySeconds === undefined) return 1;
  return Math.exp(-(startOf(facts) + lostOf(facts, shardSeconds)) / preemptionEverySeconds);
}

/** By how much preemptions that are more or fewer than on average move the end, in 95 of 100. */
function spreadOf(facts: AdviceFacts, workers: number, busy: number, shardSeconds: number): number {
  const { preemptionEverySeconds = Infinity } = facts;
  const preemptions = (workers * busy) / preemptionEverySeconds;
  const costEach = startOf(facts) + lostOf(facts, shardSeconds);
  return (1.96 * Math.sqrt(preemptions) * costEach) / workers;
}

function warningsOf(
  { shardSeconds, workers }: AdviceOption,
  facts: AdviceFacts,
  meetsDeadline: boolean | null,
): string[] {
  const { preemptionEverySeconds = Infinity } = facts;
  const warnings: string[] = [];
  if (meetsDeadline === false) {
    warnings.push(`no number of workers up to ${maxAdvisedWorkers} meets the deadline`);
  }
  if (isTooLong(shardSeconds)) {
    warnings.push("one shard takes more than 30 minutes, for a single row takes that long");
  }
  const plannedSeconds = facts.plannedRowsPerShard * facts.speed.secondsPerRow.estimated;
  if (isTooLong(plannedSeconds)) {
    const minutes = Math.round(plannedSeconds / 60);
    warnings.push(
      `as the job is now, a shard takes ${minutes} minutes: more than 30 is a lot to lose`,
    );
  }
  const { uncutRows = 1 } = facts;
  // One worker more would have nothing of it.
  if (uncutRows > 1 && uncutRows * (workers + 1) > facts.rows) {
    warnings.push(
      `${uncutRows.toLocaleString("en")} rows lie in one piece, such as a compressed file, which ` +
        "one worker reads: sluice shard cuts it into chunks",
    );
  }
  if (startOf(facts) >= preemptionEverySeconds) {
    warnings.push("a machine takes longer to start than it is kept: most are lost before a row");
  }
  if (workers >= facts.rows && facts.rows > 1) warnings.push("every worker has one row only");
  return warnings;
}

/** True of a shard that is too long to be lost, or to be waited for at the end. */
function isTooLong(shardSeconds: number): boolean {
  return shardSeconds > maxLikedShardMs / 1000;
}
