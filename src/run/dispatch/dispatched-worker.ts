import type { Channel } from "../../foundation/channel.ts";
import { limits } from "../../foundation/limits.ts";
import type { FromWorker, ToWorker } from "../worker/protocol.ts";
import type { RunningTask } from "./dispatched-task.ts";

/** A worker, as its coordinator sees it. */
export interface WorkerHandle {
  channel: Channel<ToWorker, FromWorker>;
  kill(): void;
  /** Resolves when it has ended, with the known reason. */
  readonly ended: Promise<string>;
  /** Resolves when its machine is about to be taken away; absent = never. */
  readonly drained?: Promise<DrainNotice>;
  /** Resolves when its machine is gone, or the way to it: no row is suspect; absent = never. */
  readonly lost?: Promise<string>;
}

/** Notice that a worker must leave its machine. Another one may start elsewhere. */
export interface DrainNotice {
  reason: string;
  /** Time for requests in flight and for writing its journals. */
  graceMs: number;
  /** Then it is ended; default: twice `graceMs`. */
  leaveMs?: number;
}

/** A worker that cannot start now for lack of room. */
export interface RefusedStart {
  refused: string;
  /** Default: the start is tried again after a growing wait. */
  retryAfterMs?: number;
}

/** Silent checks in a row after which a worker counts as hanging. */
const maxMissedLooks = 2;

export interface TaskLimits {
  /** Whether it holds tasks that its engine has no room for yet. Default: it does. */
  takesAhead?: boolean | undefined;
  /** Default, and most: `limits.maxOpenTasks`. */
  maxOpenTasks?: number | undefined;
}

type WantedRows = Partial<Pick<DispatchedWorker, "capacity" | "rowsAhead">>;

export class DispatchedWorker {
  readonly index: number;
  readonly handle: WorkerHandle;
  readonly running = new Map<number, RunningTask>();
  /** Its index, until it has told its id. */
  id: string;
  capacity = 1;
  /** Rows that should wait with it, if more than its engine can hold. */
  rowsAhead = 0;
  isReady = false;
  /** Cancels the timer that ends it if it does not get ready. */
  cancelReadyTimeout: () => void = () => {};
  /** Why its coordinator ended it; undefined if it did not. */
  endedFor: string | undefined;
  /** Why it was told to leave during the run; undefined if it was not. */
  leavesFor: string | undefined;
  /** True if it was ended because it hung. */
  hasStalled = false;
  #hasSpoken = false;
  #missedLooks = 0;
  readonly #takesAhead: boolean;
  readonly #maxTasks: number;

  constructor(
    index: number,
    handle: WorkerHandle,
    { takesAhead = true, maxOpenTasks = limits.maxOpenTasks }: TaskLimits = {},
  ) {
    this.#takesAhead = takesAhead;
    this.#maxTasks = Math.min(maxOpenTasks, limits.maxOpenTasks);
    this.index = index;
    this.handle = handle;
    this.id = String(index);
  }

  /** Ends it for a reason other than its rows. */
  kill(why: string): void {
    this.endedFor ??= why;
    this.handle.kill();
  }

  /** Ends it because it hangs, which may be the fault of a row. */
  endStalled(why: string): void {
    this.hasStalled = true;
    this.kill(why);
  }

  /** True if it should get another task. */
  get wantsTask(): boolean {
    if (this.leavesFor !== undefined || this.running.size >= this.#maxTasks) return false;
    let [waiting, inFlight, ahead] = [0, 0, 0];
    for (const task of this.running.values()) {
      waiting += task.waiting;
      inFlight += task.inFlight;
      if (task.waiting > 0 && task.inFlight === 0) ahead++;
    }
    if (!this.#takesAhead) return waiting + inFlight < this.capacity;
    return waiting < this.capacity || (waiting < this.rowsAhead && ahead < limits.maxTasksAhead);
  }

  /** Records reported values that changed. */
  noteWanted({ capacity = this.capacity, rowsAhead = this.rowsAhead }: WantedRows): void {
    Object.assign(this, { capacity, rowsAhead });
  }

  /** Records that it sent a message. */
  noteMessage(): void {
    this.#hasSpoken = true;
  }

  /**
   * Checks whether it sent a message since the last check. It counts as hanging only after two
   * silent checks: after a sleep of this machine or a stop of this process, the first check comes
   * before the worker's waiting messages.
   *
   * @returns false if it hangs.
   */
  look(): boolean {
    this.#missedLooks = this.#hasSpoken || !this.isReady ? 0 : this.#missedLooks + 1;
    this.#hasSpoken = false;
    return this.#missedLooks < maxMissedLooks;
  }
}
