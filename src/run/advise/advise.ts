import { limits } from "../../foundation/limits.ts";
import { type Interval, scaled } from "../bill/interval.ts";
import type { Speed } from "./speed.ts";

export const maxAdvisedWorkers = 256;

/** The longest tasks to propose. */
export const maxAdvisedShardMs = 600_000;

/** A longer task gets a warning: too much to lose, and to wait for at the end. */
const maxLikedShardMs = 1_800_000;

/** Assumed cost of a task beside its rows, in a run on a disk. */
export const shardOverheadMs = 100;

/** The same for a run in an object store. */
const storeShardOverheadMs = 1000;

export interface AdviceFacts {
  /** Rows without an answer. */
  rows: number;
  /** Rows of a task in the present job. */
  plannedRowsPerShard: number;
  /** Rows of the largest piece that tasks cannot divide, such as a compressed file; default 1. */
  uncutRows?: number;
  speed: Speed;
  /** Seconds that a new machine takes before its worker starts: fetching an image, a model. */
  machineStartSeconds: number;
  /** Mean seconds between two preemptions of one machine; undefined = no preemptions. */
  preemptionEverySeconds?: number;
  /**
   * Where workers keep their journals: it decides how much of them a lost machine takes with it.
   */
  journal: "disk" | "store";
  deadlineSeconds?: number;
  /** US dollars for an hour of a machine with one worker. */
  usdPerHour?: number;
}

export interface AdviceOption {
  workers: number;
  /** Tasks: each worker has the same number, or one fewer. */
  shards: number;
  rowsPerShard: number;
  /** Seconds that a worker needs for one task. */
  shardSeconds: number;
  /** Seconds from the start to the last row. */
  seconds: Interval;
  machineHours: number;
  /** Money for the machines; null without a price. */
  usd: Interval | null;
  /** Share of the paid time in which no row advances: starts, preemptions, commits, the end. */
  lostShare: number;
}

/** The proposed size of tasks and number of workers, with their effects. */
export interface Advice {
  proposed: AdviceOption;
  /** False if no number of workers meets the deadline; null without a deadline. */
  meetsDeadline: boolean | null;
  /** Other numbers of workers, including the proposed one, ascending. */
  options: AdviceOption[];
  /** Seconds from the start of a machine to its first row. */
  startSeconds: number;
  /** Seconds of work that a preemption costs, without the start of the next machine. */
  lostSecondsPerPreemption: number;
  /** The same if the journal is lost with the machine's disk: half a task more. */
  lostSecondsWithoutJournal: number;
  warnings: string[];
}

/** How much more than the least the machines may cost, so that a run ends sooner. */
const mostExtraCost = 1.1;
/** How much later than the earliest possible end a run may end if it misses its deadline anyway. */
const mostDelay = 1.1;

/**
 * Proposes tasks and workers. With a deadline: the fewest workers that meet it, by the upper
 * bounds of the measurement and of the number of preemptions. Without one: the most workers whose
 * machines cost at most a tenth more than the cheapest. If the deadline cannot be met: the fewest
 * workers that are at most a tenth later than the earliest end. The formulas and their sources are
 * in docs/chunks.md:
 *
 *     task     w = √(2 · C · H),  1/H = 1/T + 1/M,  10 minutes at most
 *     useful   e = exp(−(S + L) / M)
 *     time     M · (exp(S / M) − 1) + ⌈tasks / W⌉ · (w + C) / e
 *
 * where C is the seconds that a task costs beside its rows, T the work of one worker, M the mean
 * time between its preemptions, S its start and L the work that a preemption costs. Indivisible
 * work takes at least its own time.
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

/** Powers of two, up to four times the proposal. */
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

/** Equally many tasks for each worker, of about the cheapest size. */
function shardsOf(facts: AdviceFacts, workers: number): { shards: number; rowsPerShard: number } {
  const { rows, speed, preemptionEverySeconds = Infinity } = facts;
  const { estimated: secondsPerRow } = speed.secondsPerRow;
  const share = Math.max(1, Math.ceil(rows / workers));
  const work = share * secondsPerRow;
  // At the end, half a task is waited for: that counts like a preemption at its time.
  const horizon = work === 0 ? 0 : 1 / (1 / work + 1 / preemptionEverySeconds);
  const best = Math.sqrt(2 * overheadOf(facts) * horizon);
  const seconds = Math.min(best, maxAdvisedShardMs / 1000);
  const wanted = secondsPerRow === 0 ? share : Math.max(1, Math.round(seconds / secondsPerRow));
  const most = Math.max(1, Math.min(wanted, share, limits.maxTaskRows));
  const rowsPerShard = Math.max(1, Math.ceil(share / Math.ceil(share / most)));
  return { shards: Math.max(1, Math.ceil(rows / rowsPerShard)), rowsPerShard };
}

/** Seconds that a task costs beside its rows. */
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
 * Work that a preemption costs, in seconds of the worker. Rows in flight are half done. Answers are
 * in the journal; if it is in a store, half a flush is lost.
 */
function lostOf({ speed, journal }: AdviceFacts, shardSeconds: number): number {
  const atRisk = journal === "store" ? Math.min(shardSeconds, limits.maxSegmentAgeMs / 1000) : 0;
  return (speed.rowSeconds + atRisk) / 2;
}

/** Share of a machine's life in which rows advance, if lives are exponentially distributed. */
function usefulShare(facts: AdviceFacts, shardSeconds: number): number {
  const { preemptionEverySeconds } = facts;
  if (preemptionEverySeconds === undefined) return 1;
  return Math.exp(-(startOf(facts) + lostOf(facts, shardSeconds)) / preemptionEverySeconds);
}

/** How far the number of preemptions moves the end, in 95 of 100 cases. */
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
    warnings.push("one task takes more than 30 minutes, for a single row takes that long");
  }
  const plannedSeconds = facts.plannedRowsPerShard * facts.speed.secondsPerRow.estimated;
  if (isTooLong(plannedSeconds)) {
    const minutes = Math.round(plannedSeconds / 60);
    warnings.push(
      `as the job is now, a task takes ${minutes} minutes: more than 30 is a lot to lose`,
    );
  }
  const { uncutRows = 1 } = facts;
  // One more worker would have no work.
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

/** True for a task that is too long to lose, or to wait for at the end. */
function isTooLong(shardSeconds: number): boolean {
  return shardSeconds > maxLikedShardMs / 1000;
}
