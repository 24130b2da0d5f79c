import type { Engine } from "../../engines/engine.ts";
import type { Channel } from "../../foundation/channel.ts";
import { asSluiceError, rowFailed, SluiceError } from "../../foundation/errors.ts";
import { noUsage } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import { type RowArrangement, TaskAttempt, type UpcomingRows } from "../attempt/attempt.ts";
import { type Commit, doneIn } from "../attempt/commit.ts";
import type { EarlierEnds } from "../attempt/suspects.ts";
import { Executor } from "../execute/executor.ts";
import type { RequestTraces } from "../execute/request-traces.ts";
import { RowReach } from "../execute/row-reach.ts";
import { plannedRows, TaskTable } from "../plan/plan.ts";
import { inPrefixOrder } from "../plan/prefix-order.ts";
import type { PreparedPrompts } from "../prepared/prepared-prompts.ts";
import type { RunContext } from "../run-context.ts";
import { type FromWorker, protocolVersion, type TaskOutcome, type ToWorker } from "./protocol.ts";

export interface WorkerOptions {
  context: RunContext;
  engine: Engine;
  /** Removes secrets from texts of the engine. */
  redact(text: string): string;
  promptSet: PromptSet;
  /** The folder of prompts for other runs: `promptSet` belongs to it. */
  prompts?: PreparedPrompts | undefined;
  traces?: RequestTraces | undefined;
  channel: Channel<FromWorker, ToWorker>;
  pid: number;
}

interface OpenTask {
  attempt?: TaskAttempt;
  reach?: RowReach;
  /** The cause for its end, once it must not continue. */
  error?: SluiceError;
  /** The last report on it. */
  told?: string;
  isCanceled: boolean;
}

/**
 * Obeys a coordinator: runs its tasks over one engine, reports, and commits. Several tasks are open
 * at once, so that the engine never drains at a task's end.
 */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #tasks: TaskTable;
  readonly #open = new Map<number, OpenTask>();
  readonly #executor: Executor;
  readonly #pendingWork = new Set<Promise<void>>();
  readonly #unknown = new Set<string>();
  #cancelProgress: (() => void) | undefined;
  /** Cancels the timer that closes the engine after the grace period. */
  #cancelGrace: (() => void) | undefined;
  #isStopping = false;
  /** Every request has ended. */
  #hasStopped = false;
  #toldCapacity = 0;
  #toldRowsAhead = 0;
  /** As JSON, for comparison. */
  #toldChoices = "";
  /** Why the conversation ended, if the other side broke its rules. */
  fault: SluiceError | undefined;
  #resolveStopped!: () => void;
  /** Resolves when the worker was told to stop, or its channel closed, and everything is stored. */
  readonly stopped = new Promise<void>((resolve) => {
    this.#resolveStopped = resolve;
  });

  constructor(options: WorkerOptions) {
    this.#options = options;
    const { context, engine, redact, promptSet, traces } = options;
    this.#tasks = new TaskTable(context.storage, context.plan);
    this.#executor = new Executor({
      ...{ engine, redact, promptSet, traces },
      clock: context.clock,
      random: context.random,
      maxTries: context.plan.job.retries.maxAttempts,
      failOnRowError: context.plan.job.onRowError === "fail",
      arrange: arrangementOf(options),
      onComplete: (attempt, closed) => this.#finish(attempt, closed),
      onFailure: (attempt, error) => this.#failAttempt(attempt, error),
      // The coordinator sends the next task when few rows wait, so it is told at once.
      onLowBacklog: () => this.#sendProgress(),
    });
  }

  /** Reports that it is ready and begins to obey. */
  start(): void {
    const { channel, engine, context, pid } = this.#options;
    this.#toldCapacity = engine.capacity;
    const choices = { ...engine.choices };
    this.#toldChoices = JSON.stringify(choices);
    channel.send({
      type: "worker-ready",
      worker: context.worker,
      pid,
      protocol: protocolVersion,
      capacity: this.#toldCapacity,
      engine: engine.name,
      choices,
    });
    this.#scheduleProgress();
    // Last: a stop or a close that arrived while the engine was opened takes effect now.
    channel.onMessage((message) => this.#obey(message));
    channel.onClose((error) => {
      if (error instanceof SluiceError) this.fault = error;
      void this.stop(limits.orphanGraceMs);
    });
  }

  /**
   * Takes no more rows, waits up to `graceMs` for requests in flight, and stores everything.
   * Another call changes the time.
   */
  async stop(graceMs: number): Promise<void> {
    const { context, engine, channel } = this.#options;
    const closeEngine = () => void engine.close().catch(() => {});
    if (this.#hasStopped) return;
    this.#cancelGrace?.();
    const waitMs = engine.keepsRequests ? 0 : graceMs;
    this.#cancelGrace = context.clock.schedule(waitMs, closeEngine);
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#cancelProgress?.();
    // A process that waits for it may lose patience and end it: then no row is to blame.
    for (const { attempt } of this.#open.values()) attempt?.spareAsked();
    await this.#executor.stop();
    await Promise.allSettled(this.#pendingWork);
    for (const [task, open] of this.#open) {
      await open.attempt?.close().catch((error: unknown) => this.#log(error));
      this.#sendEnd(task, open, "canceled");
    }
    this.#hasStopped = true;
    this.#cancelGrace();
    await this.#tasks.close().catch((error: unknown) => this.#log(error));
    channel.close();
    this.#resolveStopped();
  }

  #obey(message: ToWorker): void {
    if (message.type === "worker-stop") {
      void this.stop(message.graceMs);
    } else if (message.type === "task-cancel") {
      const open = this.#open.get(message.task);
      if (open) open.isCanceled = true;
      if (open?.attempt) this.#abandon(message.task, open, "canceled");
    } else if (message.type === "task-run") {
      if (!this.#isStopping && !this.#open.has(message.task)) this.#run(message.task, message);
    } else {
      this.#ignore(message);
    }
  }

  #run(task: number, { suspects, spared }: EarlierEnds): void {
    const open: OpenTask = { isCanceled: false };
    this.#open.set(task, open);
    const ends = { ...(suspects && { suspects }), ...(spared !== undefined && { spared }) };
    this.#track(this.#begin(task, open, ends));
  }

  // A coordinator of a later version may send unknown messages, which can be ignored.
  #ignore({ type }: { type: string }): void {
    if (this.#unknown.has(type)) return;
    this.#unknown.add(type);
    this.#options.context.logger.log("warn", `a message of unknown type is ignored: ${type}`);
  }

  async #begin(task: number, open: OpenTask, ends: EarlierEnds): Promise<void> {
    const { context, engine } = this.#options;
    const { clock } = context;
    const begunMs = clock.monotonic();
    // Rows that soon are elsewhere cannot end this process: halves of them would cost hours.
    const pass = (rows: UpcomingRows) => {
      if (!engine.keepsRequests) open.reach?.pass(rows);
    };
    try {
      const planned = await this.#tasks.task(task);
      const attempt = await TaskAttempt.open(context, planned, ends, {
        onFailure: (error) => this.#fail(task, open, asSluiceError(error)),
        onDrain: () => this.#executor.resume(),
        onTake: pass,
      });
      if (!(attempt instanceof TaskAttempt)) return this.#alreadyCommitted(task, attempt);
      open.attempt = attempt;
      // Its journal failed before there was an attempt to close.
      if (open.error) return await attempt.close();
      if (this.#isStopping) return;
      if (open.isCanceled) return this.#abandon(task, open, "canceled");
      const { id, resumed } = attempt;
      this.#send({
        type: "task-start",
        task,
        attempt: id,
        rows: plannedRows(planned),
        resumed,
        resumedUsage: attempt.usage,
      });
      open.reach = new RowReach(attempt.suspects, (rows, isAll) =>
        this.#send({ type: "task-asking", task, rows, isAll }),
      );
      // Rows that were given up also count, before the next one may end this process.
      if (attempt.done > resumed) this.#sendProgress();
      const [given] = Object.values(attempt.errors);
      if (given && context.plan.job.onRowError === "fail") {
        return this.#fail(task, open, rowFailed(given));
      }
      this.#executor.backlog.noteOpened(clock.monotonic() - begunMs);
      this.#executor.add(attempt);
    } catch (error) {
      this.#fail(task, open, asSluiceError(error));
    }
  }

  #alreadyCommitted(task: number, commit: Commit): void {
    this.#open.delete(task);
    this.#send({ type: "task-end", task, outcome: "already-committed", ...doneIn(commit) });
  }

  #finish(attempt: TaskAttempt, closed: Promise<void>): void {
    const task = attempt.task.task;
    const committed = closed.then(() => attempt.commit());
    this.#track(
      committed.then(
        ({ outcome }) => {
          const open = this.#open.get(task);
          if (open?.attempt !== attempt) return;
          this.#sendEnd(task, open, outcome);
          this.#open.delete(task);
        },
        (error: unknown) => this.#failAttempt(attempt, asSluiceError(error)),
      ),
    );
  }

  #failAttempt(attempt: TaskAttempt, error: SluiceError): void {
    const { task } = attempt.task;
    const open = this.#open.get(task);
    if (open?.attempt === attempt) this.#fail(task, open, error);
  }

  // An earlier attempt at the same task may fail once more during the next one.
  #fail(task: number, open: OpenTask, error: SluiceError): void {
    if (this.#open.get(task) !== open || open.error) return;
    open.error = error;
    this.#abandon(task, open, "failed");
  }

  #abandon(task: number, open: OpenTask, outcome: "failed" | "canceled"): void {
    this.#open.delete(task);
    const { attempt, error } = open;
    if (attempt) this.#executor.remove(attempt, error ?? new SluiceError("RUN_CANCELED"));
    this.#track(
      (attempt?.close() ?? Promise.resolve())
        .catch((failure: unknown) => this.#log(failure))
        .then(() => this.#sendEnd(task, open, outcome)),
    );
  }

  #sendEnd(task: number, open: OpenTask, outcome: TaskOutcome): void {
    this.#send({
      type: "task-end",
      task,
      outcome,
      ...countsOf(open.attempt),
      error: open.error?.toJSON(),
      ...this.#changedChoices(),
      stages: this.#options.engine.stages,
    });
  }

  #track(work: Promise<void>): void {
    this.#pendingWork.add(work);
    void work.finally(() => this.#pendingWork.delete(work));
  }

  #scheduleProgress(): void {
    const { context } = this.#options;
    this.#cancelProgress = context.clock.schedule(limits.progressIntervalMs, () => {
      for (const { reach, attempt } of this.#open.values()) {
        if (attempt) reach?.restate((row) => attempt.isOpen(row));
      }
      // A coordinator considers a silent worker hung.
      if (this.#sendProgress() === 0) this.#send({ type: "worker-beat" });
      this.#scheduleProgress();
    });
  }

  /**
   * Reports on each task of which there is news, and returns their number. A coordinator with many
   * workers would do little else if each of their open tasks repeated itself.
   */
  #sendProgress(): number {
    let told = 0;
    for (const [task, open] of this.#open) {
      const { attempt } = open;
      if (!attempt) continue;
      const waiting = this.#executor.waitingOf(attempt);
      const inFlight = this.#executor.inFlightOf(attempt);
      const counts = { waiting, inFlight, ...countsOf(attempt) };
      const { stages, batches } = this.#options.engine;
      const ofTask = batches?.filter((batch) => batch.task === task);
      const facts = { ...counts, ...this.#changedWants(), stages, batches: ofTask };
      const text = JSON.stringify(facts);
      if (text === open.told) continue;
      open.told = text;
      this.#send({ type: "task-progress", task, ...facts });
      told++;
    }
    return told;
  }

  /** How many rows should wait here, if it differs from the last report. */
  #changedWants(): { capacity?: number; rowsAhead?: number } {
    const { capacity } = this.#options.engine;
    const wanted = this.#executor.backlog.rowsAhead;
    const rowsAhead = wanted > capacity ? wanted : 0;
    const told = {
      ...(capacity !== this.#toldCapacity && { capacity }),
      ...(rowsAhead !== this.#toldRowsAhead && { rowsAhead }),
    };
    this.#toldCapacity = capacity;
    this.#toldRowsAhead = rowsAhead;
    return told;
  }

  #changedChoices(): { choices?: Record<string, Json> } {
    const choices = { ...this.#options.engine.choices };
    const text = JSON.stringify(choices);
    if (text === this.#toldChoices) return {};
    this.#toldChoices = text;
    return { choices };
  }

  #send(message: FromWorker): void {
    this.#options.channel.send(message);
  }

  #log(error: unknown): void {
    this.#options.context.logger.log("warn", asSluiceError(error).message);
  }
}

/** How rows are arranged between reading and sending; undefined = as they are. */
function arrangementOf({ context, promptSet, prompts }: WorkerOptions): RowArrangement | undefined {
  const isOrdered = context.plan.order === "prefix";
  if (!isOrdered && !prompts) return undefined;
  return (batches, attempt) => {
    const rows = prompts?.arrange(batches, attempt) ?? batches;
    return isOrdered ? inPrefixOrder(rows, promptSet) : rows;
  };
}

function countsOf(attempt: TaskAttempt | undefined) {
  const { done = 0, failed = 0, cut = 0, usage = noUsage, errors = {} } = attempt ?? {};
  return { done, failed, usage, errors, ...(cut > 0 && { cut }) };
}
