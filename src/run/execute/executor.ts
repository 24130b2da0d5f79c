import type { InputRow } from "../../data/row.ts";
import type { Engine } from "../../engines/engine.ts";
import { withoutSecrets } from "../../engines/secrets.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, rowFailed, type SluiceError } from "../../foundation/errors.ts";
import type { InferenceResponse } from "../../foundation/inference.ts";
import type { RowArrangement, TaskAttempt } from "../attempt/attempt.ts";
import { Backlog } from "./backlog.ts";
import { Isolation, type RowTry, takeAll } from "./isolation.ts";
import type { RequestTraces } from "./request-traces.ts";
import { RowSource } from "./row-source.ts";
import { RowWork, requestsOf } from "./row-work.ts";
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
  /** Removes secrets from the texts of the engine's errors. */
  redact(text: string): string;
  clock: Clock;
  /** `onRowError: fail`: the first row that fails ends the run. */
  failOnRowError: boolean;
  traces?: RequestTraces | undefined;
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
  #begun: RowWork[] = [];
  /** Requests to send again now. */
  #again: RowTry[] = [];
  readonly #timers = new Set<() => void>();
  #inFlight = 0;
  readonly backlog: Backlog;
  #isStopping = false;
  #isPumping = false;
  #isPumpDue = false;
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

  inFlightOf(attempt: TaskAttempt): number {
    return this.#open.get(attempt)?.inFlight ?? 0;
  }

  /** Rows of the attempt, or of all attempts, with a request that was not sent yet. */
  waitingOf(attempt?: TaskAttempt): number {
    let waiting = 0;
    for (const open of this.#open.values()) {
      if (attempt && open.attempt !== attempt) continue;
      waiting += open.attempt.openRows - open.rowsInPlay;
    }
    for (const work of this.#begun) if (!attempt || work.attempt === attempt) waiting++;
    return waiting;
  }

  add(attempt: TaskAttempt): void {
    const { arrange } = this.#options;
    this.#open.set(attempt, new RowSource(attempt, () => this.#pump(), arrange));
    if (attempt.complete) this.#completeAttempt(attempt);
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
    void open.close().catch(() => {});
    this.#begun = this.#begun.filter((work) => work.attempt !== attempt);
    this.#again = this.#again.filter(({ work }) => work.attempt !== attempt);
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
    for (const source of this.#open.values()) await source.close().catch(() => {});
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

  /** Pumps once for all answers that come at once, such as those of a batch. */
  #pumpSoon(): void {
    if (this.#isPumpDue) return;
    this.#isPumpDue = true;
    queueMicrotask(() => {
      this.#isPumpDue = false;
      this.#pump();
    });
  }

  /** Whether more requests follow without an answer: rows are at hand or being read. */
  #isMoreComing(): boolean {
    if (this.#isolation.isActive) return false;
    if (this.#begun.length > 0 || this.#again.length > 0) return true;
    for (const { isExhausted } of this.#open.values()) if (!isExhausted) return true;
    return false;
  }

  #fill(): void {
    const { capacity } = this.#options.engine;
    while (this.#inFlight < capacity) {
      const rowTry = this.#nextTry();
      if (!rowTry) break;
      this.#send(rowTry);
    }
    this.backlog.look(this.waitingOf(), capacity, this.#inFlight);
  }

  #nextTry(): RowTry | undefined {
    const again = this.#again.shift();
    if (again) return again;
    for (let work = this.#begun[0]; work; work = this.#begun[0]) {
      const at = work.takeNext();
      if (!work.hasNext) this.#begun.shift();
      if (at !== undefined) return this.#tryOf(work, at);
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
      const rowTry = this.#nextOf(source);
      if (rowTry) return rowTry;
    }
    return undefined;
  }

  #nextOf(source: RowSource): RowTry | undefined {
    for (let rows = source.takeTogether(); rows; rows = source.takeTogether()) {
      const work = this.#prepare(source, rows);
      if (!work) {
        if (!source.isOpen) return undefined;
        continue;
      }
      const at = work.takeNext()!;
      if (work.hasNext) this.#begun.push(work);
      return this.#tryOf(work, at);
    }
    return undefined;
  }

  #tryOf(work: RowWork, at: number): RowTry {
    return { work, at, request: work.ready(at, this.#options.promptSet) };
  }

  /** The requests of rows; undefined if they are settled already: broken, or without a request. */
  #prepare(source: RowSource, rows: readonly InputRow[]): RowWork | undefined {
    if (source.attempt.rowsTogether > 1) return this.#prepareTogether(source, rows);
    return rows[0] && this.#prepareRow(source, rows[0]);
  }

  /** Rows with a common request go together; broken rows fail alone. */
  #prepareTogether(source: RowSource, rows: readonly InputRow[]): RowWork | undefined {
    const { attempt } = source;
    const whole = rows.filter((row) => {
      const isWhole = row.error === undefined && attempt.idFault(row) === undefined;
      if (!isWhole && source.isOpen) this.#prepareRow(source, row);
      return isWhole;
    });
    const [first] = whole;
    if (first === undefined || !source.isOpen) return undefined;
    const { promptSet } = this.#options;
    const requests = whole.map((row) => requestsOf(row, attempt, promptSet).requests[0]!);
    const together = { ...requests[0]!, rows: requests.map(({ row }) => row!) };
    source.rowsInPlay += whole.length;
    return new RowWork(source, first, [together], whole);
  }

  #prepareRow(source: RowSource, row: InputRow): RowWork | undefined {
    const { requests, failure } = requestsOf(row, source.attempt, this.#options.promptSet);
    const work = new RowWork(source, row, requests);
    source.rowsInPlay++;
    if (failure) work.failure = failure;
    const replies = source.attempt.takeReplies(row.index);
    if (replies) work.takeOver(replies);
    if (work.hasNext) return work;
    this.#settle(work);
    return undefined;
  }

  #send(rowTry: RowTry): void {
    const { work, at, request } = rowTry;
    const { source } = work;
    if (!source.isOpen) return;
    const { traces } = this.#options;
    if (traces) request.trace = traces.next(work.attempt.id);
    if (work.countTry(at) === 1) work.begin();
    this.#inFlight++;
    source.inFlight++;
    this.#options.engine.infer(request, source.abort.signal).then(
      (response) => this.#onResponse(rowTry, response),
      (error: unknown) => this.#onError(rowTry, error),
    );
  }

  /** Records that a request is no longer at the engine; false if its attempt was given up. */
  #requestEnded(source: RowSource): boolean {
    this.#inFlight--;
    source.inFlight--;
    this.#settleIdle();
    return source.isOpen;
  }

  #onResponse(rowTry: RowTry, response: InferenceResponse): void {
    this.#pumpSoon();
    if (!this.#requestEnded(rowTry.work.source)) return;
    const { work, at } = rowTry;
    const { promptSet, redact } = this.#options;
    const isCleared = this.#isolation.resolved(rowTry);
    // Only a batch with faulty rows has failures.
    response.failures?.forEach((error) => void withoutSecrets(error, redact));
    try {
      const accept = () => acceptAnswers(rowTry, response, promptSet);
      work.answered(at, work.attempt.withCare(work.index, accept));
      if (work.isDone) this.#settle(work);
      else if (work.goesOnFrom(at)) this.#begun.unshift(work);
    } catch (error) {
      this.#onInvalid(rowTry, response, asSluiceError(error));
    }
    if (isCleared) this.#noteReturned(work);
  }

  #onInvalid(rowTry: RowTry, response: InferenceResponse, error: SluiceError): void {
    const { work } = rowTry;
    const invalid = error instanceof InvalidAnswers ? error : undefined;
    const kept = invalid?.kept ?? rowTry.kept;
    // A reused answer was paid for elsewhere.
    if (!response.reused)
      work.attempt.noteInvalid(work.index, lostUsage(response, rowTry.kept, kept));
    if (invalid && this.#tryAgain(rowTry, error)) return;
    this.#fail({ ...rowTry, kept }, error, invalid?.text ?? response.answers[0]?.text);
  }

  #onError(rowTry: RowTry, thrown: unknown): void {
    this.#pumpSoon();
    if (!this.#requestEnded(rowTry.work.source)) return;
    const error = withoutSecrets(asSluiceError(thrown), this.#options.redact);
    const { work, at } = rowTry;
    if (error.paid) work.attempt.noteInvalid(work.index, error.paid);
    if (error.scope === "engine") {
      work.forgetTry(at);
      this.#isolation.fell(rowTry, error);
      if (work.triesOf(at) === 0) work.withdraw();
    } else {
      const isCleared = this.#isolation.resolved(rowTry);
      if (error.scope === "run") this.#options.onFailure(work.attempt, error);
      else if (!this.#tryAgain(rowTry, error) && !this.#mayPassLater(error)) {
        this.#fail(rowTry, error);
      }
      if (isCleared) this.#noteReturned(work);
    }
  }

  // A suspect that came back must not be blamed when the next one crashes the engine.
  #noteReturned(work: RowWork): void {
    if (!work.source.isOpen || work.isDone) return;
    for (const index of work.indexes) work.attempt.noteReturned(index);
  }

  /** False if the request had all its tries, or another try would change nothing. */
  #tryAgain(rowTry: RowTry, error: SluiceError): boolean {
    const { work, at } = rowTry;
    const after = tryAfter(work.requests[at]!, rowTry, error, work.triesOf(at), this.#options);
    if (!after) return false;
    const next: RowTry = { ...after.next, work, at };
    if (after.delayMs === 0) this.#again.push(next);
    else if (!this.#isStopping) this.#tryLater(next, after.delayMs);
    return true;
  }

  /** A stop may be what ended the last try: whoever continues the run finds out. */
  #mayPassLater({ retryable }: SluiceError): boolean {
    return this.#isStopping && retryable;
  }

  #tryLater(rowTry: RowTry, delayMs: number): void {
    const cancel = this.#options.clock.schedule(delayMs, () => {
      this.#timers.delete(cancel);
      if (!rowTry.work.source.isOpen) return;
      this.#again.push(rowTry);
      this.#pump();
    });
    this.#timers.add(cancel);
  }

  #fail({ work, kept }: RowTry, error: SluiceError, lastAnswer?: string): void {
    if (kept?.paidTokens) work.attempt.noteInvalid(work.index, usageOf(kept));
    work.failed(error, lastAnswer);
    if (work.isDone) this.#settle(work);
  }

  #settle(work: RowWork): void {
    const { attempt, source } = work;
    if (!source.isOpen) return;
    const { rowCount } = work;
    source.rowsInPlay -= rowCount;
    for (let row = 0; row < rowCount; row++) this.backlog.noteSettled();
    try {
      work.settle(this.#options.promptSet);
    } catch (error) {
      return this.#options.onFailure(attempt, asSluiceError(error));
    }
    if (work.failure && this.#options.failOnRowError) {
      const { message, place, ownHint: hint } = work.failure;
      return this.#options.onFailure(attempt, rowFailed({ message, hint, field: place.field }));
    }
    if (attempt.complete) this.#completeAttempt(attempt);
  }

  #completeAttempt(attempt: TaskAttempt): void {
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
    const rows: RowTry[][] = [];
    const most = Math.min(suspicion.together, suspicion.rows);
    for (let group = source.takeTogether(); group; group = source.takeTogether()) {
      suspicion.rows -= group.length;
      const work = this.#prepare(source, group);
      if (work) rows.push(takeAll(work, this.#options.promptSet));
      if (rows.length >= most || !source.isOpen) break;
    }
    if (source.isExhausted) suspicion.rows = 0;
    if (rows.length > 0) this.#isolation.suspect(rows, suspicion.together);
  }

  #pumpIsolated(): void {
    if (this.#inFlight > 0 || this.#isolation.isBusy || this.#isWriting) return;
    if (this.#isolation.unwritten.size > 0) return void this.#writeOutcomes();
    const group = this.#isolation.nextGroup((rowTries, error) => this.#giveUp(rowTries, error));
    if (!group) return;
    void this.#sendGroup(group);
  }

  async #writeOutcomes(): Promise<void> {
    this.#isWriting = true;
    // An attempt that cannot write learns that by itself.
    for (const attempt of this.#isolation.unwritten) await attempt.flush().catch(() => {});
    this.#isWriting = false;
    this.#isolation.written();
    this.#pump();
  }

  async #sendGroup(group: RowTry[]): Promise<void> {
    const attempts = new Set(group.map(({ work }) => work.attempt));
    for (const attempt of attempts) {
      const works = new Set(
        group.filter(({ work }) => work.attempt === attempt).map(({ work }) => work),
      );
      try {
        await attempt.noteAsked(
          [...works].flatMap((work) => work.rowsToSend),
          works.size,
        );
      } catch (error) {
        // Rows of other attempts in the group are still sent.
        this.#options.onFailure(attempt, asSluiceError(error));
      }
    }
    for (const rowTry of group) {
      if (rowTry.work.source.isOpen && !this.#isStopping) this.#send(rowTry);
      else this.#isolation.resolved(rowTry);
    }
    this.#pump();
  }

  #giveUp(rowTries: readonly RowTry[], error: SluiceError): void {
    for (const { work, at } of rowTries) {
      if (work.triesOf(at) > 0) work.failed(error);
      else work.failure ??= error;
    }
    if (rowTries[0]?.work.isDone) this.#settle(rowTries[0].work);
  }
}
