import type { Channel } from "../../foundation/channel.ts";
import { limits } from "../../foundation/limits.ts";
import type { FromWorker, ToWorker } from "../worker/protocol.ts";
import type { RunningTask } from "./dispatched-task.ts";

/** A worker as its coordinator sees it. */
export interface WorkerHandle {
  channel: Channel<ToWorker, FromWorker>;
  /** Ends it at once. */
  kill(): void;
  /** Resolves when it is gone, with what is known of why. */
  readonly ended: Promise<string>;
  /** Resolves when the place where it runs is about to be taken away; absent = it never is. */
  readonly drained?: Promise<DrainNotice>;
}

/** Notice that a worker must leave the place where it runs. Another one may start elsewhere. */
export interface DrainNotice {
  reason: string;
  /** Time it has for requests in flight, and to write its journals. */
  graceMs: number;
}

/** A worker that cannot be started for now, since there is no room for it. */
export interface RefusedStart {
  refused: string;
  /** Default: it is tried again after a growing wait. */
  retryAfterMs?: number;
}

/** Looks in a row at which a worker that hangs has said nothing. */
const maxMissedLooks = 2;

type WantedRows = Partial<Pick<DispatchedWorker, "capacity" | "rowsAhead">>;

/** A worker of a dispatcher, and what it has. */
export class DispatchedWorker {
  readonly index: number;
  readonly handle: WorkerHandle;
  readonly running = new Map<number, RunningTask>();
  /** Its index before it said who it is. */
  id: string;
  capacity = 1;
  /** Rows that should wait with it, where that is more than its engine can hold. */
  rowsAhead = 0;
  isReady = false;
  /** Why its coordinator ended it; undefined where it did not. */
  endedFor: string | undefined;
  /** Why it was told to leave while the run goes on; undefined if it was not. */
  leavesFor: string | undefined;
  /** It was ended because it hung. */
  hasStalled = false;
  #hasSpoken = false;
  #missedLooks = 0;

  constructor(index: number, handle: WorkerHandle) {
    this.index = index;
    this.handle = handle;
    this.id = String(index);
  }

  /** Ends it, for a reason that is not one of its rows. */
  kill(why: string): void {
    this.endedFor ??= why;
    this.handle.kill();
  }

  /** Ends it because it hangs, which may be the doing of one of its rows. */
  endStalled(why: string): void {
    this.hasStalled = true;
    this.kill(why);
  }

  /** True where it should be given another task. */
  get wantsTask(): boolean {
    if (this.leavesFor !== undefined || this.running.size >= limits.maxOpenTasks) return false;
    let waiting = 0;
    let ahead = 0;
    for (const task of this.running.values()) {
      waiting += task.waiting;
      if (task.waiting > 0 && task.inFlight === 0) ahead++;
    }
    return waiting < this.capacity || (waiting < this.rowsAhead && ahead < limits.maxTasksAhead);
  }

  /** Notes what it said of these, where something changed. */
  noteWanted({ capacity = this.capacity, rowsAhead = this.rowsAhead }: WantedRows): void {
    Object.assign(this, { capacity, rowsAhead });
  }

  /** It said something. */
  noteMessage(): void {
    this.#hasSpoken = true;
  }

  /**
   * Looks whether it said anything since the last look. Only after two looks without a word does it
   * count as hanging: where this machine slept, or this process was held up, the first one comes
   * before what the worker said meanwhile.
   *
   * @returns false where it hangs.
   */
  look(): boolean {
    this.#missedLooks = this.#hasSpoken || !this.isReady ? 0 : this.#missedLooks + 1;
    this.#hasSpoken = false;
    return this.#missedLooks < maxMissedLooks;
  }
}
