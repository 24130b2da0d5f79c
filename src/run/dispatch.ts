import type { Channel } from "../foundation/channel.ts";
import type { Clock } from "../foundation/clock.ts";
import { type ErrorCode, errorFromRecord, SluiceError } from "../foundation/errors.ts";
import { addUsage, noUsage, type Usage } from "../foundation/inference.ts";
import { limits } from "../foundation/limits.ts";
import type { Random } from "../foundation/random.ts";
import { backoffMs } from "../foundation/retry.ts";
import { addErrors, type ErrorCounts } from "./attempt/commit.ts";
import { gotOn, newRunning, newTask, type RunningTask, type TaskState } from "./dispatched-task.ts";
import type { RunEvent } from "./events.ts";
import { leadingDeaths } from "./execute/isolation.ts";
import type { FromWorker, ToWorker } from "./worker/protocol.ts";

/** A worker as its coordinator sees it. */
export interface WorkerHandle {
  channel: Channel<ToWorker, FromWorker>;
  /** Ends it at once. */
  kill(): void;
  /** Resolves when it is gone, with what is known of why. */
  readonly ended: Promise<string>;
}

export interface DispatchOptions {
  /** Tasks without a commit, in the order in which they are to be done. */
  tasks: readonly number[];
  /** Planned rows of a task. */
  rowsOf(task: number): number;
  workers: number;
  startWorker(slot: number): Promise<WorkerHandle>;
  clock: Clock;
  random: Random;
  /** Extra tries of a task after a failure. */
  maxTaskRetries: number;
  /** Failed rows at which the run stops; undefined = never. */
  maxFailedRows?: number;
  /** Rows that failed in tasks committed earlier. */
  failedBefore: number;
  onEvent(event: RunEvent): void;
  /** Aborted to stop: workers take no more rows and leave. */
  signal: AbortSignal;
}

/** How a dispatch ended. */
export interface DispatchEnd {
  committed: number;
  /** Why not all tasks are committed. */
  error?: SluiceError;
  /** Rows of tasks that this call worked on and that earlier calls had answered. */
  resumedRows: number;
  /** Tokens that were generated in this call. */
  generatedTokens: number;
  /** What was done in tasks that are not committed. */
  partial: { answered: number; failed: number; usage: Usage; errors: ErrorCounts };
}

interface WorkerState {
  slot: number;
  id: string;
  handle: WorkerHandle;
  capacity: number;
  running: Map<number, RunningTask>;
  isReady: boolean;
}

/**
 * Hands tasks to workers as they have room, replaces workers that die, and stops everything when
 * the run cannot or should not go on. Decides nothing about exactly-once: the commits do.
 */
export class Dispatcher {
  readonly #options: DispatchOptions;
  readonly #queue: TaskState[];
  readonly #workers = new Set<WorkerState>();
  readonly #timers = new Set<() => void>();
  #committed = 0;
  /** Starts in a row of which none got ready. */
  #failedStarts = 0;
  /** Deaths in a row, with no task committed between them. */
  #deaths = 0;
  #starting = 0;
  #failedRows: number;
  #resumedRows = 0;
  #generatedTokens = 0;
  #partial: DispatchEnd["partial"] = { answered: 0, failed: 0, usage: noUsage, errors: {} };
  #error: SluiceError | undefined;
  #isStopping = false;
  #resolve!: (end: DispatchEnd) => void;

  constructor(options: DispatchOptions) {
    this.#options = options;
    this.#failedRows = options.failedBefore;
    this.#queue = options.tasks.map((task) => newTask(task)).reverse();
  }

  /** Runs until every task is committed, or the run had to stop. Never rejects. */
  run(): Promise<DispatchEnd> {
    const { signal, workers } = this.#options;
    const ended = new Promise<DispatchEnd>((resolve) => {
      this.#resolve = resolve;
    });
    const onAbort = () => this.#stop(asReason(signal));
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    if (this.#failedRows > (this.#options.maxFailedRows ?? Infinity))
      this.#stop(this.#overBudget());
    for (let slot = 0; slot < Math.min(workers, this.#queue.length); slot++) this.#start(slot);
    this.#settleIfOver();
    return ended.finally(() => signal.removeEventListener("abort", onAbort));
  }

  #start(slot: number): void {
    if (this.#isStopping) return;
    this.#starting++;
    this.#options.startWorker(slot).then(
      (handle) => {
        this.#starting--;
        this.#join({
          slot,
          id: `${slot}`,
          handle,
          capacity: 1,
          running: new Map(),
          isReady: false,
        });
      },
      (error: unknown) => {
        this.#starting--;
        this.#stop(
          new SluiceError("ENGINE_START_FAILED", "a worker cannot be started", { cause: error }),
        );
        this.#settleIfOver();
      },
    );
  }

  #join(worker: WorkerState): void {
    this.#workers.add(worker);
    const { handle } = worker;
    handle.channel.onMessage((message) => this.#onMessage(worker, message));
    // A worker that cannot be understood any more would be waited for without end.
    handle.channel.onClose((error) => {
      if (error) handle.kill();
      else this.#killLater(worker);
    });
    void handle.ended.then((reason) => this.#onDeath(worker, reason));
    const cancel = this.#schedule(limits.workerReadyTimeoutMs, () => {
      if (!worker.isReady) handle.kill();
    });
    void handle.ended.then(cancel);
    if (this.#isStopping) this.#sendStop(worker);
  }

  #onMessage(worker: WorkerState, message: FromWorker): void {
    // One that was given up may still talk, where a backend lost sight of it.
    if (!this.#workers.has(worker)) return;
    switch (message.type) {
      case "worker-ready":
        worker.isReady = true;
        this.#failedStarts = 0;
        worker.id = message.worker;
        worker.capacity = message.capacity;
        this.#options.onEvent({ ...message, type: "worker-start" });
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
    }
    this.#assign(worker);
    this.#settleIfOver();
  }

  #onTaskStart(worker: WorkerState, message: FromWorker & { type: "task-start" }): void {
    const running = worker.running.get(message.task);
    if (running) {
      running.done = message.resumed;
      if (!running.state.hasBegun) {
        this.#resumedRows += message.resumed;
        running.state.resumedTokens = message.resumedTokens;
      }
      running.state.hasBegun = true;
    }
    this.#options.onEvent({ ...message, worker: worker.id });
  }

  #onProgress(worker: WorkerState, message: FromWorker & { type: "task-progress" }): void {
    const running = worker.running.get(message.task);
    if (!running) return;
    const { waiting, inFlight, done, failed, usage, errors } = message;
    this.#failedRows += failed - running.failed;
    this.#tellErrors(errors, running.errors);
    Object.assign(running, { waiting, inFlight, done, failed, usage, errors });
    this.#options.onEvent({ ...message, worker: worker.id });
    this.#checkBudget();
  }

  #onTaskEnd(worker: WorkerState, message: FromWorker & { type: "task-end" }): void {
    const running = worker.running.get(message.task);
    if (!running) return;
    worker.running.delete(message.task);
    this.#options.onEvent({ ...message, worker: worker.id });
    const { outcome, done, failed, usage, errors, error } = message;
    this.#tellErrors(errors, running.errors);
    if (outcome === "committed" || this.#isStopping) {
      this.#generatedTokens += usage.completionTokens - running.state.resumedTokens;
    }
    if (outcome === "committed" || outcome === "already-committed") {
      this.#committed++;
      this.#deaths = 0;
      this.#failedRows += failed - running.failed;
      this.#checkBudget();
      return;
    }
    this.#failedRows -= running.failed;
    const failure = error ? errorFromRecord(error) : undefined;
    if (failure && !isWorthRetry(failure)) this.#stop(failure);
    if (this.#isStopping) this.#addPartial({ done, failed, usage, errors });
    else {
      running.done = done;
      this.#retry(running, gotOn(running), "failures", failure);
    }
  }

  #addPartial({
    done,
    failed,
    usage,
    errors,
  }: Omit<RunningTask, "state" | "waiting" | "inFlight">) {
    const partial = this.#partial;
    partial.answered += done - failed;
    partial.failed += failed;
    partial.usage = addUsage(partial.usage, usage);
    partial.errors = addErrors(partial.errors, errors);
  }

  #tellErrors(now: ErrorCounts, before: ErrorCounts): void {
    for (const [code, entry] of Object.entries(now) as [
      ErrorCode,
      { count: number; message: string },
    ][]) {
      const count = entry.count - (before[code]?.count ?? 0);
      const { message } = entry;
      if (count > 0) this.#options.onEvent({ type: "row-error", code, message, count });
    }
  }

  #onDeath(worker: WorkerState, reason: string): void {
    if (!this.#workers.delete(worker)) return;
    const { slot, id, running, capacity, isReady } = worker;
    const isExpected = this.#isStopping || (running.size === 0 && this.#queue.length === 0);
    const error = new SluiceError("ENGINE_DIED", `worker ${id}: ${reason}`);
    this.#options.onEvent({
      type: "worker-end",
      worker: id,
      ...(isExpected ? {} : { error: error.toJSON() }),
    });
    if (!isExpected && !isReady && ++this.#failedStarts >= limits.maxEngineStarts) {
      this.#stop(
        new SluiceError("ENGINE_START_FAILED", `the worker leaves at its start: ${reason}`),
      );
    }
    // Deaths on account of one task's row lead somewhere for the others as well.
    const hasGotOn = [...running.values()].some(gotOn);
    if (hasGotOn) this.#deaths = 0;
    for (const task of running.values()) {
      this.#failedRows -= task.failed;
      // Rows that wait for another try may stand before the guilty one: look further each time.
      const most = this.#options.rowsOf(task.state.task);
      task.state.suspects = Math.max(capacity, Math.min(task.state.suspects * 2, most));
      this.#retry(task, hasGotOn, "deaths", error);
    }
    if (!isExpected && !this.#isStopping) {
      const delayMs = backoffMs(++this.#deaths, this.#options.random, restartBackoff);
      this.#schedule(delayMs, () => this.#start(slot));
    }
    // One that has nothing to do says nothing: it is not heard of before it gets a task.
    for (const other of this.#workers) this.#assign(other);
    this.#settleIfOver();
  }

  #retry(
    { state, done }: RunningTask,
    hasGotOn: boolean,
    kind: "failures" | "deaths",
    error?: SluiceError,
  ): void {
    if (hasGotOn) Object.assign(state, { failures: 0, deaths: 0 });
    state.doneAtFailure = Math.max(done, state.doneAtFailure);
    state[kind]++;
    this.#queue.push(state);
    const leading = kind === "deaths" ? leadingDeaths(state.suspects) : 0;
    if (state[kind] <= this.#options.maxTaskRetries + leading) return;
    this.#stop(
      new SluiceError("TASK_FAILED", `task ${state.task}: ${error?.message}`, { cause: error }),
    );
  }

  #assign(worker: WorkerState): void {
    if (this.#isStopping || !worker.isReady) return;
    let waiting = 0;
    for (const running of worker.running.values()) waiting += running.waiting;
    while (waiting < worker.capacity && worker.running.size < limits.maxOpenTasks) {
      const state = this.#queue.pop();
      if (!state) return;
      const rows = this.#options.rowsOf(state.task);
      worker.running.set(state.task, newRunning(state, rows));
      waiting += rows;
      const { task, suspects } = state;
      worker.handle.channel.send({ type: "task-run", task, ...(suspects > 0 ? { suspects } : {}) });
    }
  }

  #checkBudget(): void {
    const { maxFailedRows } = this.#options;
    if (maxFailedRows === undefined || this.#failedRows <= maxFailedRows) return;
    this.#stop(this.#overBudget());
  }

  #overBudget(): SluiceError {
    const detail = `${this.#failedRows} failed, ${this.#options.maxFailedRows} allowed`;
    return new SluiceError("TOO_MANY_FAILED_ROWS", detail);
  }

  #stop(error: SluiceError): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#error = error;
    for (const worker of this.#workers) this.#sendStop(worker);
  }

  #sendStop(worker: WorkerState): void {
    worker.handle.channel.send({ type: "worker-stop", graceMs: limits.stopGraceMs });
    this.#killLater(worker);
  }

  #killLater({ handle }: WorkerState): void {
    const cancel = this.#schedule(limits.stopGraceMs * 2, () => handle.kill());
    void handle.ended.then(cancel);
  }

  #schedule(delayMs: number, action: () => void): () => void {
    const cancel = this.#options.clock.schedule(delayMs, () => {
      this.#timers.delete(cancel);
      action();
      this.#settleIfOver();
    });
    this.#timers.add(cancel);
    return () => {
      this.#timers.delete(cancel);
      cancel();
    };
  }

  #settleIfOver(): void {
    const isComplete = this.#committed >= this.#options.tasks.length;
    if (!isComplete && !this.#isStopping) return;
    if (!this.#isStopping) {
      this.#isStopping = true;
      for (const worker of this.#workers) this.#sendStop(worker);
    }
    if (this.#workers.size > 0 || this.#starting > 0) return;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.#resolve({
      committed: this.#committed,
      resumedRows: this.#resumedRows,
      generatedTokens: this.#generatedTokens,
      partial: this.#partial,
      ...(this.#error && !isComplete ? { error: this.#error } : {}),
    });
  }
}

const restartBackoff = Object.freeze({ baseMs: 100, maxMs: 10_000 });

/** Failures of the storage may pass; anything else would come again. */
function isWorthRetry(error: SluiceError): boolean {
  return error.code === "STORE_FAILED" || error.scope === "engine";
}

function asReason(signal: AbortSignal): SluiceError {
  const { reason } = signal;
  return reason instanceof SluiceError ? reason : new SluiceError("RUN_CANCELED");
}
