import { backoffMs } from "../../foundation/backoff.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, errorFromRecord, SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import { Timers } from "../../foundation/timers.ts";
import type { ErrorCounts } from "../attempt/commit.ts";
import { leadingDeaths } from "../attempt/suspects.ts";
import { CancelRequest } from "../coordinate/coordinator.ts";
import type { RunEvent } from "../status/events.ts";
import { type FromWorker, protocolVersion } from "../worker/protocol.ts";
import { DispatchTally, type PartialCounts } from "./dispatch-tally.ts";
import {
  hasProgressed,
  newErrors,
  newRunning,
  newTask,
  noteDeath,
  noteSpared,
  noteStart,
  type RunningTask,
  type TaskState,
} from "./dispatched-task.ts";
import {
  DispatchedWorker,
  type DrainNotice,
  type RefusedStart,
  type TaskLimits,
  type WorkerHandle,
} from "./dispatched-worker.ts";

export type { DrainNotice, RefusedStart, WorkerHandle };

export interface DispatchOptions {
  /** Tasks without a commit, in the order of their processing. */
  tasks: readonly number[];
  /**
   * Finds further tasks when those at hand run out; resolves with none when there will be none. Its
   * errors stop the workers. Default: there are none.
   */
  takeMore?(): Promise<readonly number[]>;
  rowsOf(task: number): number;
  workers: number;
  /**
   * Starts one, or refuses for lack of room. It may wait for room until `unwanted` is aborted, and
   * then refuses at once. Its errors end the run.
   */
  startWorker(index: number, unwanted: AbortSignal): Promise<WorkerHandle | RefusedStart>;
  taskLimits?: TaskLimits;
  /** Lets workers go for which no task is left, before the run ends. Default: they stay. */
  releasesIdle?: boolean;
  /** Time for a worker to get ready; default `limits.workerReadyTimeoutMs`. */
  readyTimeoutMs?: number | undefined;
  /** After this silence, a ready worker counts as hanging; default `limits.maxWorkerSilenceMs`. */
  maxSilenceMs?: number | undefined;
  clock: Clock;
  random: Random;
  /** Extra tries of a task after a failure. */
  maxTaskRetries: number;
  /** Failed rows that are allowed: the run stops at one more; undefined = all. */
  maxFailedRows?: number;
  /** Rows that failed in tasks committed earlier. */
  failedBefore: number;
  onEvent(event: RunEvent): void;
  /** Abort it to stop: workers take no more rows and exit. */
  signal: AbortSignal;
}

export interface DispatchEnd {
  committed: number;
  /** Why not all tasks are committed. */
  error?: SluiceError;
  /** Rows that earlier calls had answered, in tasks of this call. */
  resumedRows: number;
  generatedTokens: number;
  partial: PartialCounts;
}

/**
 * Hands tasks to workers with room, replaces dead workers, and stops everything when the run must
 * not continue. Workers may start late, be refused for now, or have to leave; others then get their
 * tasks. The commits make each task count once; nothing here does.
 */
export class Dispatcher {
  readonly #options: DispatchOptions;
  readonly #queue: TaskState[];
  readonly #workers = new Set<DispatchedWorker>();
  readonly #timers: Timers;
  /** Notices that were given, each once. */
  readonly #noticed = new Set<string>();
  /** Indexes with a worker, or one that starts now or later. */
  readonly #takenIndexes = new Set<number>();
  /** Tasks that were given so far. */
  #total: number;
  /** Whether there may be further tasks, and whether they are being found. */
  #more: "none" | "perhaps" | "sought";
  #committed = 0;
  #failedStarts = 0;
  /** Deaths in a row without a committed task between them. */
  #deaths = 0;
  #starting = 0;
  /** Aborted once the starts of now are not wanted. */
  #unwanted = new AbortController();
  #failedRows: number;
  readonly #tally = new DispatchTally();
  #error: SluiceError | undefined;
  #isStopping = false;
  #resolve!: (end: DispatchEnd) => void;

  constructor(options: DispatchOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#failedRows = options.failedBefore;
    this.#total = options.tasks.length;
    this.#more = options.takeMore ? "perhaps" : "none";
    this.#queue = options.tasks.map((task) => newTask(task)).reverse();
  }

  /** Runs until every task is committed or the run must stop. Never rejects. */
  run(): Promise<DispatchEnd> {
    const { signal } = this.#options;
    const ended = new Promise<DispatchEnd>((resolve) => {
      this.#resolve = resolve;
    });
    const onAbort = () => {
      this.#stop(asReason(signal));
      // There may be no worker to wait for.
      this.#settleIfOver();
    };
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    if (this.#failedRows > (this.#options.maxFailedRows ?? Infinity))
      this.#stop(this.#tooManyFailed());
    this.#fill();
    this.#settleIfOver();
    return ended.finally(() => signal.removeEventListener("abort", onAbort));
  }

  /** Counts failed rows in tasks that other processes committed meanwhile. */
  addFailedElsewhere(rows: number): void {
    this.#failedRows += rows;
    this.#checkFailedRows();
    this.#settleIfOver();
  }

  /** Starts the missing workers that the open tasks can use. */
  #fill(): void {
    const open = this.#total - this.#committed;
    for (let index = 0; index < Math.min(this.#options.workers, open); index++) {
      if (!this.#takenIndexes.has(index)) this.#start(index);
    }
  }

  #start(index: number, refusals = 0): void {
    this.#takenIndexes.delete(index);
    if (this.#isStopping || this.#isTail) return;
    this.#takenIndexes.add(index);
    this.#starting++;
    const unwanted = this.#unwanted.signal;
    this.#options.startWorker(index, unwanted).then(
      (start) => {
        this.#starting--;
        if (!("refused" in start)) {
          this.#join(new DispatchedWorker(index, start, this.#options.taskLimits));
        } else if (unwanted.aborted) this.#giveBack(index);
        else this.#awaitRoom(index, refusals + 1, start);
      },
      (error: unknown) => {
        this.#starting--;
        const detail = "a worker cannot be started";
        this.#stop(new SluiceError("ENGINE_START_FAILED", detail, { cause: error }));
        this.#settleIfOver();
      },
    );
  }

  /** Ends a start that was given up. A task may have come back since. */
  #giveBack(index: number): void {
    this.#takenIndexes.delete(index);
    if (!this.#isStopping && !this.#isTail) this.#fill();
    this.#settleIfOver();
  }

  #awaitRoom(index: number, refusals: number, { refused, retryAfterMs }: RefusedStart): void {
    this.#noticeOnce(`a worker has to wait for room: ${refused}`);
    const delayMs = backoffMs(refusals, this.#options.random, roomBackoff, retryAfterMs);
    this.#schedule(delayMs, () => this.#start(index, refusals));
    this.#settleIfOver();
  }

  #join(worker: DispatchedWorker): void {
    this.#workers.add(worker);
    const { handle } = worker;
    handle.channel.onMessage((message) => this.#onMessage(worker, message));
    // The end of a worker with broken messages would never come.
    handle.channel.onClose((error) => {
      if (error) worker.kill(asSluiceError(error).message);
      else this.#killLater(worker);
    });
    void handle.ended.then((reason) => this.#onDeath(worker, reason));
    this.#awaitReady(worker);
    void handle.ended.then(() => worker.cancelReadyTimeout());
    this.#watch(worker);
    void handle.drained?.then((notice) => this.#drain(worker, notice));
    void handle.lost?.then((reason) => worker.kill(reason));
    if (this.#isStopping) this.#sendStop(worker);
  }

  /** A worker that still prepares its machine has as long again after each beat. */
  #awaitReady(worker: DispatchedWorker): void {
    const { readyTimeoutMs = limits.workerReadyTimeoutMs } = this.#options;
    worker.cancelReadyTimeout();
    worker.cancelReadyTimeout = this.#schedule(readyTimeoutMs, () => {
      if (!worker.isReady) worker.kill(`it did not get ready within ${readyTimeoutMs / 1000} s`);
    });
  }

  /** Tells a worker to leave. Answers in time are kept; other workers get the rest of its tasks. */
  #drain(worker: DispatchedWorker, { reason, graceMs, leaveMs }: DrainNotice): void {
    const isThere = this.#workers.has(worker) && !this.#isStopping;
    if (!isThere || worker.leavesFor !== undefined) return;
    worker.leavesFor = reason;
    const message = `worker ${worker.id} leaves, and others take its tasks: ${reason}`;
    this.#options.onEvent({ type: "notice", message });
    this.#sendStop(worker, graceMs, leaveMs);
  }

  #watch(worker: DispatchedWorker): void {
    const { maxSilenceMs = limits.maxWorkerSilenceMs } = this.#options;
    this.#schedule(maxSilenceMs / 2, () => {
      if (!this.#workers.has(worker) || this.#isStopping) return;
      // A worker that was told to leave is silent until its requests are answered.
      if (worker.leavesFor !== undefined) return;
      if (worker.look()) this.#watch(worker);
      else worker.endStalled(`it said nothing for ${maxSilenceMs / 1000} s`);
    });
  }

  #onMessage(worker: DispatchedWorker, message: FromWorker): void {
    // A worker that a backend gave up may still send messages.
    if (!this.#workers.has(worker)) return;
    worker.noteMessage();
    switch (message.type) {
      case "worker-ready":
        this.#onReady(worker, message);
        break;
      case "worker-failed":
        this.#stop(errorFromRecord(message.error));
        break;
      case "task-start":
        this.#onTaskStart(worker, message);
        break;
      case "task-progress":
        this.#onProgress(worker, message);
        break;
      case "task-end":
        this.#onTaskEnd(worker, message);
        break;
      case "task-asking":
        this.#onAnnounced(worker, message);
        return;
      case "worker-beat":
        this.#onBeat(worker, message);
        return;
      case "worker-leave":
        this.#onLeave(worker, message);
        return;
      default:
        this.#ignore(worker, message);
    }
    this.#assign(worker);
    this.#settleIfOver();
  }

  #onReady(worker: DispatchedWorker, message: FromWorker & { type: "worker-ready" }): void {
    worker.id = message.worker;
    if (message.protocol !== protocolVersion) {
      const detail = `worker ${worker.id} speaks protocol ${message.protocol}`;
      this.#stop(new SluiceError("PROTOCOL_DIFFERS", `${detail}, this process ${protocolVersion}`));
      return;
    }
    worker.isReady = true;
    this.#failedStarts = 0;
    worker.capacity = message.capacity;
    this.#options.onEvent({ ...message, type: "worker-start" });
  }

  #onBeat(worker: DispatchedWorker, { doing }: FromWorker & { type: "worker-beat" }): void {
    if (!worker.isReady) this.#awaitReady(worker);
    if (doing !== undefined) this.#noticeOnce(doing);
  }

  #onLeave(worker: DispatchedWorker, { graceMs }: FromWorker & { type: "worker-leave" }): void {
    const leaveMs = Math.max(2 * graceMs, limits.stopGraceMs);
    // A second request gives it less time.
    if (worker.leavesFor !== undefined) this.#sendStop(worker, graceMs, leaveMs);
    else this.#drain(worker, { reason: "somebody deleted it", graceMs, leaveMs });
  }

  #onAnnounced(worker: DispatchedWorker, message: FromWorker & { type: "task-asking" }): void {
    const running = worker.running.get(message.task);
    if (message.isAll && running) running.announced = [];
    running?.announced.push(message.rows);
  }

  // A worker of a later version may send unknown messages, which are not needed.
  #ignore({ id }: DispatchedWorker, { type }: { type: string }): void {
    const text = `worker ${id} sent a message of unknown type, which is ignored: ${type}`;
    this.#noticeOnce(text, type);
  }

  #noticeOnce(message: string, key = message): void {
    if (this.#noticed.has(key)) return;
    this.#noticed.add(key);
    this.#options.onEvent({ type: "notice", message });
  }

  #onTaskStart(worker: DispatchedWorker, message: FromWorker & { type: "task-start" }): void {
    const running = worker.running.get(message.task);
    if (running) {
      noteStart(running, message.attempt);
      running.done = message.resumed;
      this.#tally.addStart(running, message);
    }
    this.#options.onEvent({ ...message, worker: worker.id });
  }

  #onProgress(worker: DispatchedWorker, message: FromWorker & { type: "task-progress" }): void {
    const running = worker.running.get(message.task);
    if (!running) return;
    const { waiting, inFlight, done, failed, usage, errors } = message;
    worker.noteWanted(message);
    this.#failedRows += failed - running.failed;
    this.#tellErrors(errors, running.state);
    Object.assign(running, { waiting, inFlight, done, failed, usage });
    this.#options.onEvent({ ...message, worker: worker.id });
    this.#checkFailedRows();
  }

  #onTaskEnd(worker: DispatchedWorker, message: FromWorker & { type: "task-end" }): void {
    const running = worker.running.get(message.task);
    if (!running) return;
    worker.running.delete(message.task);
    this.#options.onEvent({ ...message, worker: worker.id });
    const { outcome, done, failed, usage, errors, error } = message;
    this.#tellErrors(errors, running.state);
    if (outcome === "committed" || this.#isStopping) {
      this.#tally.addTokens(running, usage);
    }
    if (outcome === "committed" || outcome === "already-committed") {
      this.#committed++;
      this.#deaths = 0;
      this.#failedRows += failed - running.failed;
      this.#checkFailedRows();
      return;
    }
    this.#failedRows -= running.failed;
    const failure = error ? errorFromRecord(error) : undefined;
    if (failure && !mayPass(failure)) this.#stop(failure);
    if (this.#isStopping) return this.#tally.addPartial({ done, failed, usage, errors });
    running.done = done;
    const hasLeft = worker.leavesFor !== undefined;
    const kind = hasLeft && outcome === "canceled" ? "moves" : "failures";
    this.#requeue(running, hasProgressed(running), kind, failure);
    this.#handOut(hasLeft);
  }

  #tellErrors(errors: ErrorCounts, state: TaskState): void {
    for (const event of newErrors(state, errors)) this.#options.onEvent(event);
  }

  #onDeath(worker: DispatchedWorker, how: string): void {
    if (!this.#workers.delete(worker)) return;
    const { index, id, running, capacity, isReady, endedFor, hasStalled, leavesFor } = worker;
    const reason = endedFor ?? how;
    const hasLeft = leavesFor !== undefined;
    const isIdle = running.size === 0 && this.#queue.length === 0;
    const isExpected = this.#isStopping || hasLeft || isIdle;
    const code = hasStalled ? "ENGINE_STALLED" : "ENGINE_DIED";
    const error = new SluiceError(code, `worker ${id}: ${reason}`);
    this.#options.onEvent({
      type: "worker-end",
      worker: id,
      ...(isExpected ? {} : { error: error.toJSON() }),
    });
    if (!isExpected && !isReady && ++this.#failedStarts >= limits.maxEngineStarts) {
      this.#stop(
        new SluiceError("ENGINE_START_FAILED", `the worker exited during startup: ${reason}`),
      );
    }
    // A death by a row of one task also counts as progress for the others.
    const hasProgress = [...running.values()].some(hasProgressed);
    if (hasProgress) this.#deaths = 0;
    for (const task of running.values()) {
      this.#failedRows -= task.failed;
      if (!hasLeft && (endedFor === undefined || hasStalled)) {
        noteDeath(task, capacity, hasStalled);
      } else noteSpared(task);
      this.#requeue(task, hasProgress, hasLeft ? "moves" : "deaths", error);
    }
    if (isExpected || this.#isStopping) this.#takenIndexes.delete(index);
    else {
      const delayMs = backoffMs(++this.#deaths, this.#options.random, restartBackoff);
      this.#schedule(delayMs, () => this.#start(index));
    }
    this.#handOut(hasLeft);
    this.#settleIfOver();
  }

  #requeue(
    { state, done }: RunningTask,
    hasProgress: boolean,
    kind: "failures" | "deaths" | "moves",
    error?: SluiceError,
  ): void {
    if (hasProgress) Object.assign(state, { failures: 0, deaths: 0 });
    state.doneAtFailure = Math.max(done, state.doneAtFailure);
    this.#queue.push(state);
    if (kind === "moves") return;
    // A worker that died after some work did not die of the first rows of the task.
    if (!hasProgress || kind === "failures") state[kind]++;
    const { suspects } = state.ends;
    const leading = kind === "deaths" && suspects ? leadingDeaths(suspects.together * 2) : 0;
    if (state[kind] <= this.#options.maxTaskRetries + leading) return;
    this.#stop(
      new SluiceError("TASK_FAILED", `task ${state.task}: ${error?.message}`, { cause: error }),
    );
  }

  /** Gives returned tasks to workers with room, and to new ones if some have left. */
  #handOut(isFilled = true): void {
    for (const worker of this.#workers) this.#assign(worker);
    if (isFilled && this.#queue.length > 0) this.#fill();
  }

  #assign(worker: DispatchedWorker): void {
    if (this.#isStopping || !worker.isReady) return;
    while (worker.wantsTask) {
      const state = this.#queue.pop();
      if (!state) {
        this.#seekMore();
        return this.#release(worker);
      }
      worker.running.set(state.task, newRunning(state, this.#options.rowsOf(state.task)));
      worker.handle.channel.send({ type: "task-run", task: state.task, ...state.ends });
    }
  }

  /** True if no task is left to hand out, and idle workers may go. */
  get #isTail(): boolean {
    return this.#options.releasesIdle === true && this.#queue.length === 0 && this.#more === "none";
  }

  #release(worker: DispatchedWorker): void {
    if (!this.#isTail) return;
    this.#giveUpStarts();
    if (worker.running.size > 0) return;
    worker.leavesFor = "no task is left for it";
    this.#sendStop(worker);
  }

  #giveUpStarts(): void {
    if (this.#starting === 0) return;
    this.#unwanted.abort();
    this.#unwanted = new AbortController();
  }

  #seekMore(): void {
    if (this.#more !== "perhaps" || this.#isStopping) return;
    this.#more = "sought";
    this.#options.takeMore!().then(
      (tasks) => {
        this.#more = tasks.length === 0 ? "none" : "perhaps";
        this.#total += tasks.length;
        this.#queue.unshift(...tasks.map((task) => newTask(task)).reverse());
        this.#handOut();
        this.#settleIfOver();
      },
      (error: unknown) => {
        this.#stop(asSluiceError(error));
        this.#settleIfOver();
      },
    );
  }

  #checkFailedRows(): void {
    const { maxFailedRows } = this.#options;
    if (maxFailedRows === undefined || this.#failedRows <= maxFailedRows) return;
    this.#stop(this.#tooManyFailed());
  }

  #tooManyFailed(): SluiceError {
    const detail = `${this.#failedRows} failed, ${this.#options.maxFailedRows} allowed`;
    return new SluiceError("TOO_MANY_FAILED_ROWS", detail);
  }

  #stop(error: SluiceError): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#error = error;
    const isAsked = error instanceof CancelRequest;
    const stopAll = (graceMs: number) => {
      // Whatever its requests get, a worker has time to write its journals.
      const leaveMs = Math.max(2 * graceMs, limits.stopGraceMs);
      for (const worker of this.#workers) this.#sendStop(worker, graceMs, leaveMs);
    };
    stopAll(isAsked ? error.graceMs : limits.stopGraceMs);
    this.#giveUpStarts();
    if (isAsked) error.hurry.addEventListener("abort", () => stopAll(error.hurryMs));
  }

  #sendStop(
    worker: DispatchedWorker,
    graceMs: number = limits.stopGraceMs,
    leaveMs = 2 * graceMs,
  ): void {
    worker.handle.channel.send({ type: "worker-stop", graceMs });
    this.#killLater(worker, leaveMs);
  }

  #killLater(worker: DispatchedWorker, delayMs: number = 2 * limits.stopGraceMs): void {
    const cancel = this.#schedule(delayMs, () => worker.kill("it did not leave"));
    void worker.handle.ended.then(cancel);
  }

  #schedule(delayMs: number, action: () => void): () => void {
    return this.#timers.schedule(delayMs, () => {
      action();
      this.#settleIfOver();
    });
  }

  #settleIfOver(): void {
    const isUpToDate = this.#committed >= this.#total;
    // No worker is there to want more.
    if (isUpToDate && this.#workers.size === 0 && this.#starting === 0) this.#seekMore();
    const isComplete = isUpToDate && this.#more === "none";
    if (!isComplete && !this.#isStopping) return;
    if (!this.#isStopping) {
      this.#isStopping = true;
      for (const worker of this.#workers) this.#sendStop(worker);
      this.#giveUpStarts();
    }
    if (this.#workers.size > 0 || this.#starting > 0) return;
    this.#timers.clear();
    const { resumedRows, generatedTokens, partial } = this.#tally;
    this.#resolve({
      committed: this.#committed,
      ...{ resumedRows, generatedTokens, partial },
      ...(this.#error && !isComplete ? { error: this.#error } : {}),
    });
  }
}

const roomBackoff = Object.freeze({ baseMs: 500, maxMs: 10_000 });
const restartBackoff = Object.freeze({ baseMs: 100, maxMs: 10_000 });

/** Failures of the storage and of the engine may pass; others would occur again. */
function mayPass(error: SluiceError): boolean {
  return error.code === "STORE_FAILED" || error.scope === "engine";
}

function asReason(signal: AbortSignal): SluiceError {
  const { reason } = signal;
  return reason instanceof SluiceError ? reason : new SluiceError("RUN_CANCELED");
}
