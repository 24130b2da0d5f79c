import type { InputRow } from "../../data/row.ts";
import type { Engine } from "../../engines/engine.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { InferenceResponse } from "../../foundation/inference.ts";
import type { TaskAttempt } from "../attempt/attempt.ts";
import type { RowArrangement } from "../attempt/row-arrangement.ts";
import { Backlog } from "./backlog.ts";
import { type Asking, askAll, Isolation } from "./isolation.ts";
import { RowJob, requestsOf } from "./row-job.ts";
import { RowSource } from "./row-source.ts";
import {
  acceptAnswers,
  InvalidAnswers,
  lostUsage,
  type TryOptions,
  tryAfter,
  usageOf,
} from "./tries.ts";

export interface ExecutorOptions extends TryOptions {
  engine: Engine;
  clock: Clock;
  /** `onRowError: fail`: the first row that fails ends the run. */
  failOnRowError: boolean;
  /** The order in which a task's rows are sent; default: input order. */
  arrange?: RowArrangement;
  /** Every row of the attempt has an outcome; `closed` resolves when its input is closed. */
  onComplete(attempt: TaskAttempt, closed: Promise<void>): void;
  /** The attempt cannot continue. An error of scope `run` ends the whole run. */
  onFailure(attempt: TaskAttempt, error: SluiceError): void;
  /** Too few rows wait; reported once more when the engine has room for them. */
  onLowBacklog(): void;
}

/**
 * Keeps one engine busy with the rows of several attempts. A request starts as soon as another
 * ends, rows of the older task first. Never waits for a batch.
 */
export class Executor {
  readonly #options: ExecutorOptions;
  readonly #open = new Map<TaskAttempt, RowSource>();
  readonly #isolation = new Isolation();
  /** Rows with requests that were not sent yet. */
  #begun: RowJob[] = [];
  /** Requests to send again now. */
  #again: Asking[] = [];
  readonly #timers = new Set<() => void>();
  #inFlight = 0;
  readonly backlog: Backlog;
  #isStopping = false;
  #isPumping = false;
  #isWriting = false;
  /** Set by `stop`: called when the engine has no request. */
  #onIdle: (() => void) | undefined;

  constructor(options: ExecutorOptions) {
    this.#options = options;
    this.backlog = new Backlog(options.clock, options.onLowBacklog);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Requests of the attempt in flight. */
  inFlightOf(attempt: TaskAttempt): number {
    return this.#open.get(attempt)?.inFlight ?? 0;
  }

  /** Rows of the attempt, or of all attempts, without any request yet. */
  waitingOf(attempt?: TaskAttempt): number {
    let waiting = 0;
    for (const open of this.#open.values()) {
      if (attempt && open.attempt !== attempt) continue;
      waiting += open.attempt.openRows - open.rowsInPlay;
    }
    for (const job of this.#begun) if (!attempt || job.attempt === attempt) waiting++;
    return waiting;
  }

  /** Starts on an attempt's rows. */
  add(attempt: TaskAttempt): void {
    const { arrange } = this.#options;
    this.#open.set(attempt, new RowSource(attempt, () => this.#pump(), arrange));
    if (attempt.complete) this.#leave(attempt);
  }

  /** Continues after something outside made room (the journal was written). */
  resume(): void {
    this.#pump();
  }

  /** Gives up an attempt and aborts its requests in flight. */
  remove(attempt: TaskAttempt, reason: SluiceError): void {
    const open = this.#open.get(attempt);
    if (!open) return;
    this.#open.delete(attempt);
    open.abort.abort(reason);
    void open.close();
    this.#begun = this.#begun.filter((job) => job.attempt !== attempt);
    this.#again = this.#again.filter(({ job }) => job.attempt !== attempt);
    this.#isolation.forget(attempt);
    this.#pump();
  }

  /** Takes no more rows; resolves when the engine has no request. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#isolation.clear();
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.#options.engine.flush?.();
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      this.#settleIdle();
    });
    for (const source of this.#open.values()) await source.close();
  }

  #settleIdle(): void {
    if (this.#inFlight === 0) this.#onIdle?.();
  }

  // Not re-entered: an engine that answers at once would nest a call a row.
  #pump(): void {
    if (this.#isStopping || this.#isPumping) return;
    this.#isPumping = true;
    try {
      if (this.#isolation.isActive) this.#pumpIsolated();
      if (!this.#isolation.isActive) this.#fill();
      // Filling may have found suspected rows, which no answer would send on.
      if (this.#isolation.isActive) this.#pumpIsolated();
      this.#checkSources();
      if (this.#inFlight > 0 && !this.#isMoreComing()) this.#options.engine.flush?.();
    } finally {
      this.#isPumping = false;
    }
  }

  /** Whether more requests follow without an answer: rows are at hand or being read. */
  #isMoreComing(): boolean {
    if (this.#isolation.isActive) return false;
    if (this.#begun.length > 0 || this.#again.length > 0) return true;
    return [...this.#open.values()].some(({ isExhausted }) => !isExhausted);
  }

  #fill(): void {
    const { capacity } = this.#options.engine;
    while (this.#inFlight < capacity) {
      const asking = this.#nextAsking();
      if (!asking) break;
      this.#ask(asking);
    }
    this.backlog.look(this.waitingOf(), capacity, this.#inFlight);
  }

  #nextAsking(): Asking | undefined {
    const again = this.#again.shift();
    if (again) return again;
    for (let job = this.#begun[0]; job; job = this.#begun[0]) {
      const at = job.takeNext();
      if (!job.hasNext) this.#begun.shift();
      if (at !== undefined) return this.#askingOf(job, at);
    }
    for (const source of this.#open.values()) {
      const { attempt } = source;
      if (attempt.isFull) continue;
      if (attempt.suspicion.rows > 0) {
        // Suspected rows go alone: requests in flight must end first.
        if (source.buffered > 0) this.#suspectFirstRows(source);
        if (this.#isolation.isActive) return undefined;
        continue;
      }
      const asking = this.#nextOf(source);
      if (asking) return asking;
    }
    return undefined;
  }

  #nextOf(source: RowSource): Asking | undefined {
    for (let rows = source.takeTogether(); rows; rows = source.takeTogether()) {
      const job = this.#prepare(source, rows);
      if (!job) {
        if (!source.isOpen) return undefined;
        continue;
      }
      const at = job.takeNext()!;
      if (job.hasNext) this.#begun.push(job);
      return this.#askingOf(job, at);
    }
    return undefined;
  }

  #askingOf(job: RowJob, at: number): Asking {
    return { job, at, request: job.ready(at, this.#options.promptSet) };
  }

  /** The requests of rows; undefined if they are settled already: broken, or without a request. */
  #prepare(source: RowSource, rows: readonly InputRow[]): RowJob | undefined {
    if (source.attempt.rowsTogether > 1) return this.#prepareTogether(source, rows);
    return rows[0] && this.#prepareRow(source, rows[0]);
  }

  /** Rows with a common request are one job; broken rows fail alone. */
  #prepareTogether(source: RowSource, rows: readonly InputRow[]): RowJob | undefined {
    const { attempt } = source;
    const asked = rows.filter((row) => {
      const isWhole = row.error === undefined && attempt.idFault(row) === undefined;
      if (!isWhole && source.isOpen) this.#prepareRow(source, row);
      return isWhole;
    });
    const [first] = asked;
    if (first === undefined || !source.isOpen) return undefined;
    const { promptSet } = this.#options;
    const requests = asked.map((row) => requestsOf(row, attempt, promptSet).requests[0]!);
    const together = { ...requests[0]!, rows: requests.map(({ row }) => row!) };
    source.rowsInPlay += asked.length;
    return new RowJob(source, first, [together], asked);
  }

  #prepareRow(source: RowSource, row: InputRow): RowJob | undefined {
    const { requests, failure } = requestsOf(row, source.attempt, this.#options.promptSet);
    const job = new RowJob(source, row, requests);
    source.rowsInPlay++;
    if (failure) job.failure = failure;
    const replies = source.attempt.takeReplies(row.index);
    if (replies) job.takeOver(replies);
    if (job.hasNext) return job;
    this.#settle(job);
    return undefined;
  }

  #ask(asking: Asking): void {
    const { job, at, request } = asking;
    const { source } = job;
    if (!source.isOpen) return;
    if (job.countTry(at) === 1) job.begin();
    this.#inFlight++;
    source.inFlight++;
    this.#options.engine.infer(request, source.abort.signal).then(
      (response) => this.#onResponse(asking, response),
      (error: unknown) => this.#onError(asking, error),
    );
  }

  /** Records that a request left the engine; false if its attempt was given up. */
  #left(source: RowSource): boolean {
    this.#inFlight--;
    source.inFlight--;
    this.#settleIdle();
    return source.isOpen;
  }

  #onResponse(asking: Asking, response: InferenceResponse): void {
    if (!this.#left(asking.job.source)) return this.#pump();
    const { job, at } = asking;
    const isCleared = this.#isolation.resolved(asking);
    try {
      const accept = () => acceptAnswers(asking, response, this.#options.promptSet);
      job.answered(at, job.attempt.withCare(job.index, accept));
      if (job.isDone) this.#settle(job);
      else if (job.goesOnFrom(at)) this.#begun.unshift(job);
    } catch (error) {
      this.#onInvalid(asking, response, asSluiceError(error));
    }
    if (isCleared) this.#noteReturned(job);
    this.#pump();
  }

  #onInvalid(asking: Asking, response: InferenceResponse, error: SluiceError): void {
    const { job } = asking;
    const invalid = error instanceof InvalidAnswers ? error : undefined;
    const kept = invalid?.kept ?? asking.kept;
    // A reused answer was paid for elsewhere.
    if (!response.reused)
      job.attempt.noteInvalid(job.index, lostUsage(response, asking.kept, kept));
    if (invalid && this.#askAgain(asking, error)) return;
    this.#fail({ ...asking, kept }, error, invalid?.text ?? response.answers[0]?.text);
  }

  #onError(asking: Asking, thrown: unknown): void {
    if (!this.#left(asking.job.source)) return this.#pump();
    const error = asSluiceError(thrown);
    const { job, at } = asking;
    if (error.paid) job.attempt.noteInvalid(job.index, error.paid);
    if (error.scope === "engine") {
      job.forgetTry(at);
      this.#isolation.fell(asking, error);
      if (job.triesOf(at) === 0) job.withdraw();
    } else {
      const isCleared = this.#isolation.resolved(asking);
      if (error.scope === "run") this.#options.onFailure(job.attempt, error);
      else if (!this.#askAgain(asking, error)) this.#fail(asking, error);
      if (isCleared) this.#noteReturned(job);
    }
    this.#pump();
  }

  // A suspect that came back must not be blamed when the next one crashes the engine.
  #noteReturned(job: RowJob): void {
    if (!job.source.isOpen || job.isDone) return;
    for (const index of job.indexes) job.attempt.noteReturned(index);
  }

  /** False if the request had all its tries, or another try would change nothing. */
  #askAgain(asking: Asking, error: SluiceError): boolean {
    const { job, at } = asking;
    const after = tryAfter(job.requests[at]!, asking, error, job.triesOf(at), this.#options);
    if (!after) return false;
    const next: Asking = { ...after.next, job, at };
    if (after.delayMs === 0) this.#again.push(next);
    else if (!this.#isStopping) this.#askLater(next, after.delayMs);
    return true;
  }

  #askLater(asking: Asking, delayMs: number): void {
    const cancel = this.#options.clock.schedule(delayMs, () => {
      this.#timers.delete(cancel);
      if (!asking.job.source.isOpen) return;
      this.#again.push(asking);
      this.#pump();
    });
    this.#timers.add(cancel);
  }

  #fail({ job, kept }: Asking, error: SluiceError, lastAnswer?: string): void {
    if (kept?.paidTokens) job.attempt.noteInvalid(job.index, usageOf(kept));
    job.failed(error, lastAnswer);
    if (job.isDone) this.#settle(job);
  }

  #settle(job: RowJob): void {
    const { attempt, source } = job;
    if (!source.isOpen) return;
    source.rowsInPlay -= job.indexes.length;
    for (const _ of job.indexes) this.backlog.noteSettled();
    try {
      job.settle(this.#options.promptSet);
    } catch (error) {
      return this.#options.onFailure(attempt, asSluiceError(error));
    }
    if (job.failure && this.#options.failOnRowError) {
      const place = { ...job.failure.place, file: undefined };
      const error = new SluiceError("ROW_FAILED", job.failure.message, place);
      return this.#options.onFailure(attempt, error);
    }
    if (attempt.complete) this.#leave(attempt);
  }

  #leave(attempt: TaskAttempt): void {
    const closed = this.#open.get(attempt)?.close() ?? Promise.resolve();
    this.#open.delete(attempt);
    // The input is no longer needed.
    this.#options.onComplete(
      attempt,
      closed.catch(() => {}),
    );
  }

  #checkSources(): void {
    for (const { attempt, fault } of this.#open.values()) {
      if (fault) this.#options.onFailure(attempt, fault);
    }
  }

  #suspectFirstRows(source: RowSource): void {
    const { suspicion } = source.attempt;
    const rows: Asking[][] = [];
    const most = Math.min(suspicion.together, suspicion.rows);
    for (let group = source.takeTogether(); group; group = source.takeTogether()) {
      suspicion.rows -= group.length;
      const job = this.#prepare(source, group);
      if (job) rows.push(askAll(job, this.#options.promptSet));
      if (rows.length >= most || !source.isOpen) break;
    }
    if (source.isExhausted) suspicion.rows = 0;
    if (rows.length > 0) this.#isolation.suspect(rows, suspicion.together);
  }

  #pumpIsolated(): void {
    if (this.#inFlight > 0 || this.#isolation.isBusy || this.#isWriting) return;
    if (this.#isolation.unwritten.size > 0) return void this.#writeOutcomes();
    const group = this.#isolation.nextGroup((askings, error) => this.#giveUp(askings, error));
    if (!group) return;
    void this.#askGroup(group);
  }

  async #writeOutcomes(): Promise<void> {
    this.#isWriting = true;
    // An attempt that cannot write learns that by itself.
    for (const attempt of this.#isolation.unwritten) await attempt.flush().catch(() => {});
    this.#isWriting = false;
    this.#isolation.written();
    this.#pump();
  }

  async #askGroup(group: Asking[]): Promise<void> {
    const attempts = new Set(group.map(({ job }) => job.attempt));
    for (const attempt of attempts) {
      const jobs = new Set(
        group.filter(({ job }) => job.attempt === attempt).map(({ job }) => job),
      );
      try {
        await attempt.noteAsked(
          [...jobs].flatMap((job) => job.askedRows),
          jobs.size,
        );
      } catch (error) {
        // Rows of other attempts in the group are still sent.
        this.#options.onFailure(attempt, asSluiceError(error));
      }
    }
    for (const asking of group) {
      if (asking.job.source.isOpen && !this.#isStopping) this.#ask(asking);
      else this.#isolation.resolved(asking);
    }
    this.#pump();
  }

  #giveUp(askings: readonly Asking[], error: SluiceError): void {
    for (const { job, at } of askings) {
      if (job.triesOf(at) > 0) job.failed(error);
      else job.failure ??= error;
    }
    if (askings[0]?.job.isDone) this.#settle(askings[0].job);
  }
}
