import type { Storage } from "../../data/storage/storage.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import type { IndexRange } from "../../foundation/index-set.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import { committedTasks } from "../attempt/commits.ts";
import { commitPath, type RunGeneration, sealPath } from "../directory/layout.ts";
import { assertStands } from "../directory/run-storage.ts";
import type { Claims, StandingClaim } from "./claims.ts";

const maxClaimedTasks = 256;
/** A claim covers tasks for this many times its own cost, so that it costs 1 % of the time … */
const workPerClaim = 100;
/** … and for this share of the time until all are claimed, so that no worker ends much later. */
const maxShareOfRest = 1 / 4;
/** A worker that takes this many times as long as the average leaves the last tasks to others. */
const slowFactor = 3;

export interface TaskSourceOptions {
  storage: Storage;
  clock: Clock;
  random: Random;
  claims: Claims;
  of: RunGeneration;
  /** All tasks of the run. */
  total: number;
  /** Tasks with a commit when the worker began. */
  committed: ReadonlySet<number>;
  /** The part that this worker processes first; undefined = none. */
  share: IndexRange | undefined;
  /** Abort it once the worker needs no more tasks. */
  signal: AbortSignal;
}

/** Tasks given to a worker, and how many were left that no claim covered. */
interface HandOut {
  tasks: number;
  atMs: number;
  open: number;
}

/**
 * Gives a joining worker the tasks that it processes next: those of its own share first, then tasks
 * of workers that are gone, then the far end of what others have not begun. While others work on
 * the last tasks it waits, because one of them may die.
 */
export class TaskSource {
  readonly #options: TaskSourceOptions;
  #committed: ReadonlySet<number>;
  /** Tasks that this worker got. Another one may have succeeded its claim of some. */
  readonly #given = new Set<number>();
  /** Time of the last claim with the reading before it. */
  #claimMs = 0;
  #firstHandOut: HandOut | undefined;
  #lastHandOut: HandOut | undefined;
  #msPerTask: number | undefined;
  /** Time until all workers together have claimed all tasks. */
  #restMs: number | undefined;
  /** Tasks that no claim covered at the last look, and when others claimed some last. */
  #seen = { open: -1, sinceMs: 0 };
  /** Time of the last look at the heartbeats of others while it had tasks of its own. */
  #watchedMs = Number.NEGATIVE_INFINITY;

  constructor(options: TaskSourceOptions) {
    this.#options = options;
    this.#committed = options.committed;
  }

  /**
   * Claims the next tasks, in the order of their processing.
   *
   * @returns none once every task is committed or given to this worker, or the run is sealed.
   * @throws the reason of the signal, and errors of the storage.
   */
  async take(): Promise<number[]> {
    const { clock, claims, signal } = this.#options;
    this.#measure(clock.monotonic());
    for (let isWaiting = false; ; isWaiting = true) {
      signal.throwIfAborted();
      const lookMs = clock.monotonic();
      // If every task is claimed, others can only succeed a claim: that shows when we try to.
      if (!isWaiting || this.#open() > 0) await claims.read();
      const range = this.#leavesRest() ? undefined : await this.#claimNext();
      if (range) {
        this.#claimMs = clock.monotonic() - lookMs;
        const tasks = tasksOf(range).filter((task) => !this.#isSettled(task));
        for (const task of tasks) this.#given.add(task);
        const open = this.#open();
        this.#lastHandOut = { tasks: tasks.length, atMs: clock.monotonic(), open };
        this.#firstHandOut ??= this.#lastHandOut;
        this.#seen.open = open;
        if (tasks.length > 0) return tasks;
        continue;
      }
      if (await this.#isOver()) return [];
      await sleep(clock, limits.heartbeatIntervalMs / 2, signal);
    }
  }

  /** What was handed out last took until now. */
  #measure(nowMs: number): void {
    if (this.#lastHandOut === undefined) return;
    const { tasks, atMs } = this.#lastHandOut;
    const msPerTask = (nowMs - atMs) / Math.max(1, tasks);
    this.#msPerTask = (msPerTask + (this.#msPerTask ?? msPerTask)) / 2;
  }

  /**
   * True if others will have begun all tasks before this worker could end one. If they claim none
   * in the time that it takes for one, it takes one after all.
   */
  #leavesRest(): boolean {
    const nowMs = this.#options.clock.monotonic();
    const open = this.#open();
    if (open !== this.#seen.open) this.#seen = { open, sinceMs: nowMs };
    const msBetween = this.#msBetweenClaims(nowMs, open);
    this.#restMs = msBetween === undefined ? undefined : open * msBetween;
    if (this.#msPerTask === undefined || msBetween === undefined) return false;
    const averageMs = msBetween * this.#options.claims.owners().size;
    const isSlow = this.#msPerTask > slowFactor * averageMs;
    // It may not be done with its last task.
    const isLate = 2 * this.#msPerTask > open * msBetween;
    return isSlow && isLate && nowMs - this.#seen.sinceMs < this.#msPerTask;
  }

  /**
   * Time in which all workers together claim one task. They claim in waves, and between two waves
   * a look at the last hand-out alone would see nobody: the faster of two rates counts.
   */
  #msBetweenClaims(nowMs: number, open: number): number | undefined {
    const [first, last] = [this.#firstHandOut, this.#lastHandOut].map((since) =>
      since && since.open > open
        ? (nowMs - since.atMs) / (since.open - open)
        : Number.POSITIVE_INFINITY,
    );
    const msBetween = Math.min(first!, last!);
    return Number.isFinite(msBetween) ? msBetween : undefined;
  }

  async #claimNext(): Promise<IndexRange | undefined> {
    return (await this.#claimOwn()) ?? (await this.#claimStale()) ?? (await this.#claimFarEnd());
  }

  /** Tasks that a claim may cover: more where they are short, and fewer near the end. */
  #size({ first, last }: IndexRange): number {
    if (this.#msPerTask === undefined) return 1;
    const restMs = (this.#restMs ?? Number.POSITIVE_INFINITY) * maxShareOfRest;
    const workMs = Math.min(this.#claimMs * workPerClaim, restMs);
    const wanted = Math.ceil(workMs / Math.max(0.01, this.#msPerTask));
    // Less than half of what is left: others may claim at its other end in this moment.
    const half = Math.floor((last - first + 1) / 2);
    return Math.max(1, Math.min(wanted, maxClaimedTasks, half));
  }

  /** Claims the next tasks of the worker's own share that no claim covers. */
  async #claimOwn(): Promise<IndexRange | undefined> {
    const { share, claims } = this.#options;
    for (;;) {
      const [gap] = share ? within(this.#gaps(), share) : [];
      if (!gap) return undefined;
      const range = { first: gap.first, last: gap.first + this.#size(gap) - 1 };
      if (!(await claims.claim(range))) continue;
      await this.#watchOthers(gap);
      return range;
    }
  }

  /**
   * Looks at the heartbeats of others a while before this worker helps, so that it then knows whose
   * have stood still.
   *
   * @param left what was left of its own share.
   */
  async #watchOthers({ first, last }: IndexRange): Promise<void> {
    const leftMs = (last - first + 1) * (this.#msPerTask ?? Number.POSITIVE_INFINITY);
    const nowMs = this.#options.clock.monotonic();
    const isSoon = leftMs <= 2 * limits.maxHeartbeatSilenceMs;
    if (!isSoon || nowMs - this.#watchedMs < limits.maxHeartbeatSilenceMs / 2) return;
    this.#watchedMs = nowMs;
    await this.#options.claims.staleAmong(this.#unfinished().map(({ owner }) => owner));
  }

  /** Claims tasks that no claim covers, as far as possible from those who work towards them. */
  async #claimFarEnd(): Promise<IndexRange | undefined> {
    for (;;) {
      const gap = this.#anyLong(this.#gaps());
      if (!gap) return undefined;
      const range = { first: gap.last - this.#size(gap) + 1, last: gap.last };
      if (await this.#options.claims.claim(range, gap.last)) return range;
    }
  }

  /**
   * Succeeds a claim whose owner is gone, or a part of it that holds its key: the other tasks are
   * open then, and a claim of them has another key.
   */
  async #claimStale(): Promise<IndexRange | undefined> {
    const { claims, storage, of } = this.#options;
    const stale = await claims.staleAmong(this.#unfinished().map(({ owner }) => owner));
    const left = () => this.#unfinished().filter(({ owner }) => stale.has(owner));
    if (left().length === 0) return undefined;
    this.#committed = await committedTasks(storage, of);
    for (const { first, last, key } of left()) {
      const size = this.#size({ first, last });
      const range =
        key === last ? { first: last - size + 1, last } : { first, last: first + size - 1 };
      if (await claims.claim(range, key)) return range;
    }
    return undefined;
  }

  /** Claims with tasks that were not committed when this worker looked last. */
  #unfinished(): StandingClaim[] {
    return [...this.#options.claims.standing()].filter(
      (claim) => !tasksOf(claim).every((task) => this.#committed.has(task)),
    );
  }

  /** One of the longest gaps: if all helpers took the same one, only one of them would get it. */
  #anyLong(gaps: readonly IndexRange[]): IndexRange | undefined {
    const lengths = gaps.map(({ first, last }) => last - first + 1);
    const least = Math.max(...lengths) / 2;
    const long = gaps.filter((_, at) => lengths[at]! >= least);
    return long[Math.floor(this.#options.random.next() * long.length)];
  }

  /** Tasks that are neither claimed nor committed. */
  #open(): number {
    return this.#gaps().reduce((sum, { first, last }) => sum + last - first + 1, 0);
  }

  /** They in runs. */
  #gaps(): IndexRange[] {
    const { total, claims } = this.#options;
    const taken = new Uint8Array(total);
    for (const { first, last } of claims.standing()) taken.fill(1, first, last + 1);
    for (const task of this.#committed) taken[task] = 1;
    const gaps: IndexRange[] = [];
    for (let first = taken.indexOf(0); first !== -1; ) {
      const end = taken.indexOf(1, first);
      gaps.push({ first, last: (end === -1 ? total : end) - 1 });
      first = end === -1 ? -1 : taken.indexOf(0, end);
    }
    return gaps;
  }

  /** True if a task is committed, or this worker got it. */
  #isSettled(task: number): boolean {
    return this.#committed.has(task) || this.#given.has(task);
  }

  /** True if every task is committed or given to this worker, or the run is sealed. */
  async #isOver(): Promise<boolean> {
    const { storage, of } = this.#options;
    // A listing of all commits is long, and many workers may wait: first a look at one task.
    const last = this.#lastUnsettled();
    if (last === undefined) return true;
    if (await storage.stat(commitPath(last, of))) {
      this.#committed = await committedTasks(storage, of);
      if (this.#lastUnsettled() === undefined) return true;
    }
    if (await storage.stat(sealPath(of))) return true;
    // The tasks of a run that another one has replaced are never committed.
    await assertStands(storage);
    return false;
  }

  #lastUnsettled(): number | undefined {
    let task = this.#options.total - 1;
    while (task >= 0 && this.#isSettled(task)) task--;
    return task < 0 ? undefined : task;
  }
}

function tasksOf({ first, last }: IndexRange): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

/** The parts of gaps that lie in a share. */
function within(gaps: readonly IndexRange[], share: IndexRange): IndexRange[] {
  return gaps
    .map(({ first, last }) => ({
      first: Math.max(first, share.first),
      last: Math.min(last, share.last),
    }))
    .filter(({ first, last }) => first <= last);
}
