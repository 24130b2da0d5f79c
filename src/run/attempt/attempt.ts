import type { InputRow } from "../../data/row.ts";
import { readRows } from "../../data/slices.ts";
import { describeEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import type { Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { withinTime } from "../../foundation/time-limit.ts";
import { attemptPaths, commitPath } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import { openaiBatch, resultsHoldFailed } from "../openai-batch/batch-lines.ts";
import { RowFiles } from "../plan/job-files.ts";
import { plannedRows, readOptionsOf, type Task } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { AttemptCounts, Commit, PreparedCounts } from "./commit.ts";
import { type AttemptEnd, endByCommit, isJournalNeeded } from "./commit-attempt.ts";
import { type JournalListener, type JournalPlace, JournalWriter } from "./journal.ts";
import {
  answeredHead,
  isCut,
  type JournalLine,
  othersOf,
  type RequestRecord,
  type RequestReply,
  type RowFailure,
} from "./journal-line.ts";
import { OutcomeTable } from "./outcomes.ts";
import { type PartFiles, PartWriter } from "./part-writer.ts";
import { type Replayed, type RowReplies, replayJournals } from "./replay.ts";
import type { RequestCounts } from "./request-counts.ts";
import type { EarlierEnds } from "./suspects.ts";
import { AttemptTally } from "./tally.ts";

/** Events of an attempt, for its caller. */
export interface AttemptListener extends JournalListener {
  /** Called for each row before its requests are sent: the first of the next rows. */
  onTake?(rows: UpcomingRows): void;
}

/** What is known of an answer beside its text. */
export interface AnswerFacts {
  /** The number of rows that the row became: the answer is the list of them. */
  results?: number;
  /** The other rows of its request, which have no results of their own. */
  others?: readonly InputRow[];
  /** True if its text certainly is ASCII. */
  isAscii?: boolean;
}

const alone: readonly InputRow[] = [];

/** The next rows to send, as far as they were read. */
export interface UpcomingRows {
  /** The indexes of up to `most` of them, in the order in which they are sent. */
  upcoming(most: number): number[];
}

/**
 * One try at a task by one worker. Reads the rows without an answer of an earlier attempt, keeps a
 * journal of outcomes, and commits when every row has one.
 */
export class TaskAttempt {
  readonly task: Task;
  readonly id: string;
  /** Neighbouring rows of a common request: rows whose indexes give the same quotient by it. */
  readonly rowsTogether: number;
  readonly rowFiles: RowFiles;
  /** Rows with an answer of an earlier attempt. */
  readonly resumed: number;
  /** How many of the next rows are suspects, and how many of them may be sent at once. */
  readonly suspicion: { rows: number; together: number };
  readonly #hasIds: boolean;
  readonly #context: RunContext;
  readonly #journal: JournalWriter;
  readonly #part: PartWriter;
  readonly #listener: AttemptListener;
  readonly #outcomes: OutcomeTable;
  /** Rows that are read before all others. */
  readonly suspects: ReadonlySet<number>;
  /** Suspects that were sent and have no outcome yet. */
  readonly #asked = new Set<number>();
  /** Earlier attempts' answers to requests of open rows. */
  readonly #replies: Map<number, RowReplies>;
  readonly #earlierAttempts: number;
  readonly #startedAt: number;
  readonly #startedMs: number;
  readonly #tally: AttemptTally;

  private constructor(opened: OpenedAttempt) {
    this.task = opened.task;
    this.id = opened.id;
    const { job } = opened.context.plan;
    const { model } = job;
    this.rowFiles = new RowFiles(job);
    this.rowsTogether = describeEngine(model).rowsTogether?.(model) ?? 1;
    const { together } = opened.suspected;
    this.suspects = wholeGroups(opened.suspected.rows, this.rowsTogether, opened.outcomes);
    this.suspicion = { rows: this.suspects.size, together };
    this.#listener = opened.listener;
    this.resumed = opened.resumed;
    this.#hasIds = opened.task.slices.some((slice) => slice.id !== undefined);
    this.#context = opened.context;
    this.#journal = opened.journal;
    this.#part = new PartWriter(opened.context, opened.task, opened.id, opened.listener);
    this.#outcomes = opened.outcomes;
    this.#replies = opened.replies;
    this.#earlierAttempts = opened.earlierAttempts;
    this.#tally = new AttemptTally(opened.counts);
    this.#startedAt = opened.context.clock.now();
    this.#startedMs = opened.context.clock.monotonic();
  }

  /**
   * Begins an attempt: checks whether the task is committed already, and replays earlier journals.
   *
   * @param ends how earlier attempts ended, as far as a coordinator saw it.
   */
  static async open(
    context: RunContext,
    task: Task,
    ends: EarlierEnds,
    listener: AttemptListener,
  ): Promise<TaskAttempt | Commit> {
    const { storage, plan, clock, random } = context;
    const id = sortableId(clock, random);
    const paths = attemptPaths(task.task, plan, id);
    const outcomes = new OutcomeTable(task);
    const journal = await JournalWriter.open(storage, paths.journal, clock, {
      ...listener,
      wholeLines: plan.job.output.include.length > 0,
    });
    try {
      const replaying = replayJournals(context, task, id, outcomes, journal, ends);
      const [replayed] = await Promise.allSettled([replaying]);
      // Checked after the journals, also if one was gone: a seal removes them, but only when there
      // is a commit.
      const standing = await readJson<Commit>(storage, commitPath(task.task, plan));
      if (standing) {
        await journal.close();
        await storage.remove(paths.journal);
        return standing;
      }
      if (replayed.status === "rejected") throw replayed.reason;
      const opened = { context, task, id, outcomes, journal, listener };
      return new TaskAttempt({ ...opened, ...replayed.value });
    } catch (error) {
      await journal.close();
      throw error;
    }
  }

  get done(): number {
    return this.#tally.done;
  }

  get failed(): number {
    return this.#tally.counts.rows.failed;
  }

  get usage(): Usage {
    return { ...this.#tally.counts.usage };
  }

  get errors(): AttemptCounts["errors"] {
    return this.#tally.counts.errors;
  }

  /** Rows with an answer that reached its token limit. */
  get cut(): number {
    return this.#outcomes.cut.length;
  }

  /** True if every planned row has an outcome. */
  get complete(): boolean {
    return this.#outcomes.open === 0;
  }

  get openRows(): number {
    return this.#outcomes.open;
  }

  /** Records that the first of the next rows is taken, to be sent. */
  noteTaken(rows: UpcomingRows): void {
    this.#listener.onTake?.(rows);
  }

  /**
   * Computes a row's texts with `compute`. A suspected row has little time: endless work would end
   * its worker once more.
   *
   * @throws SluiceError `ROW_STALLS_WORKER` after `limits.maxSuspectComputeMs`.
   */
  withCare<Value>(index: number, compute: () => Value): Value {
    if (!this.suspects.has(index)) return compute();
    const done = withinTime(limits.maxSuspectComputeMs, compute);
    if (done) return done.value;
    const detail = `row ${index}: its texts took over ${limits.maxSuspectComputeMs / 1000} s`;
    throw new SluiceError("ROW_STALLS_WORKER", detail);
  }

  /** True if the row has no outcome yet. */
  isOpen(index: number): boolean {
    return this.#outcomes.isOpen(index);
  }

  notePrepared(counts: PreparedCounts): void {
    this.#tally.prepared(counts);
  }

  get isFull(): boolean {
    return this.#journal.isFull || this.#part.isFull;
  }

  /**
   * The rows without an outcome in arrays of limited size: suspects first, then the others in input
   * order or in the order of `arrange`.
   */
  async *readOpenRows(arrange: RowArrangement = inInputOrder): AsyncGenerator<InputRow[]> {
    const { suspects } = this;
    if (suspects.size > 0) yield* this.#readOpenRows((index) => suspects.has(index), suspects.size);
    const others = this.#readOpenRows((index) => !suspects.has(index));
    yield* arrange(others, this);
  }

  /** Open rows in `wanted`, in input order, up to `most` of them. */
  async *#readOpenRows(
    isWanted: (index: number) => boolean,
    most = Number.POSITIVE_INFINITY,
  ): AsyncGenerator<InputRow[]> {
    const { openFile, plan } = this.#context;
    const { slices, firstRow } = this.task;
    const options = readOptionsOf(plan.job);
    let rest = most;
    for await (const rows of readRows(slices, firstRow, openFile, options)) {
      const open = rows.filter(({ index }) => this.#outcomes.isOpen(index) && isWanted(index));
      if (open.length > 0) yield open;
      rest -= open.length;
      if (rest <= 0) return;
    }
  }

  /** The fault of the row's id, if the job names an id field. */
  idFault(row: InputRow): SluiceError | undefined {
    if (!this.#hasIds) return undefined;
    const slice = this.task.slices.find(({ file }) => file === row.file);
    const field = slice?.id;
    if (field === undefined || row.value === undefined) return undefined;
    const id = row.value[field];
    if (["string", "number", "bigint"].includes(typeof id)) return undefined;
    // The check of batch lines reports a missing id together with their other fields.
    if (id === undefined && slice!.format === openaiBatch) return undefined;
    const { file, line } = row;
    const detail = id === undefined ? "the row lacks it" : JSON.stringify(id).slice(0, 80);
    return new SluiceError("ID_INVALID", detail, { file, line, field });
  }

  /** Earlier attempts' answers to an open row, by number of the request; can be called once. */
  takeReplies(index: number): RowReplies | undefined {
    if (this.#replies.size === 0) return undefined;
    const replies = this.#replies.get(index);
    this.#replies.delete(index);
    return replies;
  }

  /** Keeps the answer to one request of a row with more requests. */
  notePartlyAnswered(index: number, request: number, reply: RequestReply): void {
    this.#journal.append({ index, outcome: "partly-answered", request, ...reply });
  }

  /** Counts the tokens of a wrong answer, which its row does not keep. */
  noteInvalid(index: number, usage: Usage): void {
    this.#journal.append({ index, outcome: "invalid", usage });
    this.#tally.invalid(usage);
  }

  /**
   * Records that a row was answered.
   *
   * @param row the row, if it is at hand: then it need not be read again when its turn comes.
   */
  settleAnswered(
    index: number,
    requests: readonly RequestRecord[],
    answerJson: string,
    row?: InputRow,
    { results, others = alone, isAscii = false }: AnswerFacts = {},
  ): void {
    const head = answeredHead(index, requests, results, others);
    const place = this.#journal.appendAnswer(head, answerJson, isAscii);
    if (!this.#outcomes.settle(index, "answered", place)) throw settledTwice(index);
    if (row && this.#part.isNext(index)) {
      this.#part.answered(row, this.#journal.wholeLines ? `${head}${answerJson}}` : answerJson);
    }
    this.#asked.delete(index);
    if (isCut(requests)) this.#outcomes.cut.push(index);
    this.#tally.answered(requests, results ?? 1);
    for (const other of others) this.#filtered(other.index, place, [], other);
  }

  /**
   * Records that a stage left a row out of the results; `row` and `others` as for `settleAnswered`.
   */
  settleFiltered(
    index: number,
    requests: readonly RequestRecord[],
    row?: InputRow,
    others: readonly InputRow[] = [],
  ): void {
    const together = othersOf(others);
    const place = this.#journal.append({
      ...{ index, outcome: "filtered", ...together },
      requests: [...requests],
    });
    this.#filtered(index, place, requests, row);
    for (const other of others) this.#filtered(other.index, place, [], other);
  }

  #filtered(
    index: number,
    place: JournalPlace,
    requests: readonly RequestRecord[],
    row: InputRow | undefined,
  ): void {
    if (!this.#outcomes.settle(index, "filtered", place)) throw settledTwice(index);
    if (row && this.#part.isNext(index)) this.#part.filtered(row);
    this.#asked.delete(index);
    this.#tally.filtered(requests);
  }

  /** Records that a row failed for good; `row` as for `settleAnswered`. */
  settleFailed(index: number, failure: RowFailure, row?: InputRow): void {
    const { tries: attempts, partial, lastAnswer } = failure;
    const error = { ...failure.error.toJSON(), hint: failure.error.ownHint };
    const line: Extract<JournalLine, { outcome: "failed" }> = {
      index,
      outcome: "failed",
      error,
      attempts,
      planned: failure.planned,
      requests: [...failure.requests],
      ...{ partial, lastAnswer },
    };
    if (!this.#outcomes.settle(index, "failed", this.#journal.append(line)))
      throw settledTwice(index);
    if (row && this.#part.isNext(index)) this.#part.failed(row, line);
    this.#asked.delete(index);
    this.#tally.failed(failure.error, failure.requests, failure.planned);
  }

  /**
   * Journals that suspects are about to be sent; resolves when the line is written.
   *
   * @param together how many units can be separated: rows of a common request count once.
   */
  async noteAsked(rows: readonly RowToSend[], together = rows.length): Promise<void> {
    for (const { index, planned } of rows) {
      const requests = planned === 1 ? {} : { planned };
      this.#journal.append({ index, outcome: "asked", together, ...requests });
      this.#asked.add(index);
    }
    await this.#journal.flush();
  }

  /** Journals that a suspect came back and will be sent again. */
  noteReturned(index: number): void {
    if (this.#asked.delete(index)) this.#journal.append({ index, outcome: "returned" });
  }

  /** This attempt is about to end for a reason outside its rows: none of them will be blamed. */
  spareAsked(): void {
    for (const index of [...this.#asked]) this.noteReturned(index);
  }

  /** Resolves when every outcome so far is written. */
  flush(): Promise<void> {
    return this.#journal.flush();
  }

  /** Ends without a commit; the next attempt takes over the journal. */
  async close(): Promise<void> {
    this.spareAsked();
    await Promise.all([this.#journal.close(), this.#part.abort()]);
  }

  /**
   * Writes part and dead letters, creates the commit, and publishes it if it is this attempt's.
   *
   * @throws SluiceError `ROWS_UNBALANCED` if a planned row has no outcome.
   */
  async commit(): Promise<AttemptEnd> {
    if (!this.complete) {
      throw new SluiceError(
        "ROWS_UNBALANCED",
        `task ${this.task.task}: ${this.#outcomes.open} open`,
      );
    }
    await this.#journal.sync();
    const files = await this.#writeFiles();
    const end: AttemptEnd =
      "attempt" in files
        ? { outcome: "already-committed", commit: files }
        : await endByCommit(this.#context, this.#commitRecord(files));
    // After the commit: until then, a lost machine may still cost unwritten data.
    const isNeeded = await isJournalNeeded(this.#context, end);
    const closing = this.#journal.close({ isNeeded });
    // The commit stands, even if the journal, which nobody will read, is lost.
    await (isNeeded ? closing : closing.catch(() => {}));
    return end;
  }

  /** Part, dead letters and ids; or the commit of another attempt, which makes them needless. */
  async #writeFiles(): Promise<PartFiles | Commit> {
    const { storage, plan } = this.#context;
    try {
      return await this.#part.finish(this.#outcomes);
    } catch (error) {
      // The journal is gone if others finished and sealed the run meanwhile.
      const standing = await readJson<Commit>(storage, commitPath(this.task.task, plan)).catch(
        () => undefined,
      );
      if (standing) return standing;
      throw error;
    }
  }

  #commitRecord(files: PartFiles): Commit {
    const { plan, clock, worker } = this.#context;
    const { counts } = this.#tally;
    return {
      task: this.task.task,
      run: plan.runId,
      generation: plan.generation,
      attempt: this.id,
      earlierAttempts: this.#earlierAttempts,
      worker,
      ...files,
      ...counts,
      cut: this.cut,
      rows: {
        ...counts.rows,
        total: plannedRows(this.task),
        results: counts.rows.results + (resultsHoldFailed(plan.job) ? counts.rows.failed : 0),
      },
      ...replacedBy(this.task, counts.requests),
      startedAt: new Date(this.#startedAt).toISOString(),
      committedAt: new Date(clock.now()).toISOString(),
      busySeconds: (clock.monotonic() - this.#startedMs) / 1000,
    };
  }
}

/** Rows with answers have as many requests as before. */
function replacedBy({ replaces }: Task, requests: RequestCounts): Pick<Commit, "replaces"> {
  if (replaces === undefined) return {};
  return { replaces: replaces === "same" ? requests : replaces };
}

/** The next row to send, and the number of its requests. */
export interface RowToSend {
  index: number;
  planned: number;
}

interface OpenedAttempt extends Replayed {
  context: RunContext;
  task: Task;
  id: string;
  outcomes: OutcomeTable;
  journal: JournalWriter;
  listener: AttemptListener;
}

/** The rows, and all open rows that share a request with them. */
function wholeGroups(
  rows: ReadonlySet<number>,
  size: number,
  outcomes: OutcomeTable,
): ReadonlySet<number> {
  if (size === 1) return rows;
  const whole = new Set<number>();
  for (const group of new Set([...rows].map((row) => Math.floor(row / size)))) {
    for (let row = group * size; row < (group + 1) * size; row++) {
      if (outcomes.isOpen(row)) whole.add(row);
    }
  }
  return whole;
}

function settledTwice(index: number): SluiceError {
  return new SluiceError("ROWS_UNBALANCED", `row ${index} ended twice`);
}

/** What an arrangement needs of its attempt. */
export interface ArrangedAttempt {
  readonly task: Task;
  notePrepared(counts: PreparedCounts): void;
}

/** Puts rows into the order in which they are sent. */
export type RowArrangement = (
  batches: AsyncIterable<InputRow[]>,
  attempt: ArrangedAttempt,
) => AsyncIterable<InputRow[]>;

const inInputOrder: RowArrangement = (batches) => batches;
