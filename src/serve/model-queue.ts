import type { Clock } from "../foundation/clock.ts";
import { SluiceError } from "../foundation/errors.ts";

/** Time in which the weight of what was measured halves. */
const halfLifeMs = 10_000;

/** Callers whose debts are remembered, beside those that wait. */
const maxLines = 256;

/** Requests of each kind go before all of the next one. */
export const priorities = ["online", "batch"] as const;
export type Priority = (typeof priorities)[number];

/** What decides when the turn of a request comes. */
export interface Turn {
  /** Callers share the model fairly: the one that got least goes first. */
  caller: string;
  /** Share of the caller relative to others; default 1. */
  weight?: number | undefined;
  /** Work of the request, in tokens. */
  cost: number;
  priority: Priority;
  /** Longest time that it may wait, at most `maxQueueWaitMs`, which is the default. */
  maxWaitMs?: number | undefined;
  /** Nothing is let in beside it: it may end the model. Default false. */
  isAlone?: boolean | undefined;
}

export interface QueueLimits {
  /** Requests that may wait; more are refused. */
  maxQueueSize: number;
  /** Longest wait of an online request; one that would wait longer is refused at once. */
  maxQueueWaitMs: number;
}

/** Called once when a request has left the model. */
export type Leave = () => void;

interface Waiting extends Turn {
  /** Virtual time at which it came. */
  readonly cameAt: number;
  readonly admitted: PromiseWithResolvers<Leave>;
}

/** The waiting requests of one caller at one priority, oldest first. */
interface Line {
  readonly waiting: Set<Waiting>;
  /** Virtual time at which the caller has used up what it got; what left the line costs nothing. */
  finishTag: number;
}

/** The callers of one priority, by start-time fair queueing. */
class FairQueue {
  readonly #lines = new Map<string, Line>();
  /** The start tag of the request that was admitted last. */
  #virtualTime = 0;
  size = 0;
  /** Total cost of those that wait. */
  cost = 0;

  add(turn: Turn, admitted: PromiseWithResolvers<Leave>): Waiting {
    const waiting = { ...turn, cameAt: this.#virtualTime, admitted };
    this.#lineOf(turn.caller).waiting.add(waiting);
    this.size++;
    this.cost += turn.cost;
    return waiting;
  }

  remove(waiting: Waiting): void {
    const line = this.#lines.get(waiting.caller);
    if (!line?.waiting.delete(waiting)) return;
    this.size--;
    this.cost = this.size === 0 ? 0 : this.cost - waiting.cost;
  }

  /** The one whose turn is next. */
  first(): Waiting | undefined {
    let chosen: Waiting | undefined;
    let chosenTag = Number.POSITIVE_INFINITY;
    for (const [caller, line] of this.#lines) {
      const [first] = line.waiting;
      if (first === undefined) {
        // A caller that waits for nothing and has no debt needs no line.
        const hasDebt = line.finishTag > this.#virtualTime;
        if (!hasDebt || this.#lines.size > maxLines) this.#lines.delete(caller);
        continue;
      }
      if (startTagOf(first, line) >= chosenTag) continue;
      chosen = first;
      chosenTag = startTagOf(first, line);
    }
    return chosen;
  }

  take(first: Waiting): void {
    const line = this.#lineOf(first.caller);
    this.#virtualTime = startTagOf(first, line);
    line.finishTag = this.#virtualTime + first.cost / (first.weight ?? 1);
    this.remove(first);
  }

  #lineOf(caller: string): Line {
    const known = this.#lines.get(caller);
    if (known) return known;
    const line = { waiting: new Set<Waiting>(), finishTag: 0 };
    this.#lines.set(caller, line);
    return line;
  }
}

const startTagOf = ({ cameAt }: Waiting, { finishTag }: Line) => Math.max(cameAt, finishTag);

/**
 * The queue of a model: lets in as many requests as it computes at once, and decides which comes
 * next. Online requests go before those of batches; among each kind, callers share by the cost of
 * their requests (start-time fair queueing: Goyal, Vin and Cheng, 1996). A request that would wait
 * too long is refused at once, by the measured speed of the model.
 *
 * @example
 * const leave = await queue.enter({ caller: "a", cost: 100, priority: "online" }, signal);
 * try { await engine.infer(request, signal); } finally { leave(); }
 */
export class ModelQueue {
  readonly #clock: Clock;
  readonly #limits: QueueLimits;
  readonly #slots: () => number;
  readonly #queues: Readonly<Record<Priority, FairQueue>> = {
    online: new FairQueue(),
    batch: new FairQueue(),
  };
  #inFlight = 0;
  #inFlightCost = 0;
  #isShared = false;
  /** True while a request is in work that must be alone. */
  #isTaken = false;
  #refusal: SluiceError | undefined;
  /** Cost that was done, and time in which something was in work; old ones count less. */
  #doneCost = 0;
  #busyMs = 0;
  /** Time in which something was in work since a request left. */
  #busySinceMs = 0;
  #measuredAtMs: number;

  /** @param slots requests that the model computes at once; it may change. */
  constructor(slots: () => number, limits: QueueLimits, clock: Clock) {
    this.#slots = slots;
    this.#limits = limits;
    this.#clock = clock;
    this.#measuredAtMs = clock.monotonic();
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether requests were in work beside each other since there was none: each had company. */
  get isShared(): boolean {
    return this.#isShared;
  }

  waiting(priority?: Priority): number {
    const { online, batch } = this.#queues;
    return priority === undefined ? online.size + batch.size : this.#queues[priority].size;
  }

  /**
   * Waits for the turn of a request; one that need not wait is let in at once.
   *
   * @throws SluiceError `QUEUE_FULL` with `retryAfterMs` if too many wait or the wait would be too
   *   long, `DEADLINE_EXCEEDED` if it was; the reason of `close`; the signal's reason.
   */
  enter(turn: Turn, signal: AbortSignal): Leave | Promise<Leave> {
    signal.throwIfAborted();
    if (this.#refusal) throw this.#refusal;
    if (this.waiting() === 0 && this.#hasRoom(turn)) return this.#admit(turn);
    const maxWaitMs = this.#longestWaitMs(turn);
    this.#assertPlace(turn, maxWaitMs);
    return this.#wait(turn, maxWaitMs, signal);
  }

  async #wait(turn: Turn, maxWaitMs: number, signal: AbortSignal): Promise<Leave> {
    const queue = this.#queues[turn.priority];
    const admitted = Promise.withResolvers<Leave>();
    const waiting = queue.add(turn, admitted);
    const giveUp = (reason: unknown) => {
      queue.remove(waiting);
      admitted.reject(reason);
      // It may have held up others by its wish to be alone.
      this.admitNext();
    };
    const cancelTimer = this.#clock.schedule(maxWaitMs, () =>
      giveUp(new SluiceError("DEADLINE_EXCEEDED", `it waited ${Math.round(maxWaitMs)} ms`)),
    );
    const onAbort = () => giveUp(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await admitted.promise;
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Refuses all that wait and all that come. Those in work go on. */
  close(reason: SluiceError): void {
    this.#refusal = reason;
    for (const priority of priorities) {
      const queue = this.#queues[priority];
      for (let next = queue.first(); next; next = queue.first()) {
        queue.take(next);
        next.admitted.reject(reason);
      }
    }
  }

  #longestWaitMs({ priority, maxWaitMs = Number.POSITIVE_INFINITY }: Turn): number {
    // Rows of a batch have the time of their batch.
    return priority === "batch" ? maxWaitMs : Math.min(maxWaitMs, this.#limits.maxQueueWaitMs);
  }

  #assertPlace({ priority }: Turn, maxWaitMs: number): void {
    // The worker that sends rows of a batch holds only as many as it may.
    if (priority === "batch") return;
    const { maxQueueSize } = this.#limits;
    const isFull = this.#queues.online.size >= maxQueueSize;
    const waitMs = this.#predictedWaitMs();
    if (!isFull && waitMs <= maxWaitMs) return;
    const detail = isFull
      ? `${maxQueueSize} requests wait already`
      : `the wait would be ${(waitMs / 1000).toFixed(1)} s`;
    // Later than the longest wait, nobody knows.
    const retryAfterMs = Math.max(1000, Math.min(waitMs, this.#limits.maxQueueWaitMs));
    throw new SluiceError("QUEUE_FULL", detail, { retryAfterMs });
  }

  /** The expected wait of one more online request, from the speed that was measured. */
  #predictedWaitMs(): number {
    if (this.#doneCost === 0) return 0;
    // One of those in work has to leave first.
    const first = this.#inFlight === 0 ? 0 : this.#inFlightCost / this.#inFlight;
    return ((first + this.#queues.online.cost) * this.#busyMs) / this.#doneCost;
  }

  #hasRoom({ isAlone = false }: Pick<Turn, "isAlone">): boolean {
    if (this.#isTaken) return false;
    return this.#inFlight < (isAlone ? 1 : Math.max(1, this.#slots()));
  }

  #admit({ cost, isAlone = false }: Turn): Leave {
    this.#countBusy();
    this.#inFlight++;
    this.#inFlightCost += cost;
    if (isAlone) this.#isTaken = true;
    if (this.#inFlight > 1) this.#isShared = true;
    return () => {
      this.#measure(cost);
      this.#inFlight--;
      if (isAlone) this.#isTaken = false;
      if (this.#inFlight === 0) this.#isShared = false;
      this.#inFlightCost = this.#inFlight === 0 ? 0 : this.#inFlightCost - cost;
      this.admitNext();
    };
  }

  /** Lets in those for which there is room: also to be called when there is more of it. */
  admitNext(): void {
    for (;;) {
      const { online, batch } = this.#queues;
      const queue = online.size > 0 ? online : batch;
      const next = queue.first();
      if (next === undefined || !this.#hasRoom(next)) return;
      queue.take(next);
      next.admitted.resolve(this.#admit(next));
    }
  }

  #measure(doneCost: number): void {
    this.#countBusy();
    // Only busy time makes the past fade: an idle model does not get slower or faster. And only
    // when something is done: a request that takes long says nothing of the speed until then.
    const kept = 0.5 ** (this.#busySinceMs / halfLifeMs);
    this.#busyMs = this.#busyMs * kept + this.#busySinceMs;
    this.#doneCost = this.#doneCost * kept + doneCost;
    this.#busySinceMs = 0;
  }

  #countBusy(): void {
    const nowMs = this.#clock.monotonic();
    if (this.#inFlight > 0) this.#busySinceMs += nowMs - this.#measuredAtMs;
    this.#measuredAtMs = nowMs;
  }
}
