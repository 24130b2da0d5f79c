import { isAscii } from "node:buffer";
import { ColumnMisfit } from "../../data/column-fit.ts";
import type { Column } from "../../data/columns.ts";
import type { InputRow } from "../../data/row.ts";
import { readRows } from "../../data/slices.ts";
import type { RandomReader, Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { parseMessage } from "../../foundation/exact-json.ts";
import { indexSetOf } from "../../foundation/index-set.ts";
import { type FileRecord, storeFile } from "../directory/file-record.ts";
import { attemptPaths } from "../directory/layout.ts";
import { readLineBatches } from "../directory/lines.ts";
import { recordBytes } from "../directory/records.ts";
import { carryPart, type WrittenPart } from "../output/carried-part.ts";
import { encodeFile } from "../output/encoded-file.ts";
import { columnsOfLines } from "../output/own-columns.ts";
import { publishedForm } from "../output/published-form.ts";
import { plannedRows, readOptionsOf, type Task } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { Commit } from "./commit.ts";
import { hashOfId, sortedIds } from "./id-hashes.ts";
import type { JournalPlace } from "./journal.ts";
import type { JournalLine } from "./journal-line.ts";
import { LineFile, type LineFileListener } from "./line-file.ts";
import type { OutcomeTable, RowOutcome } from "./outcomes.ts";
import { ResultLines } from "./result-lines.ts";
import { RowHashes } from "./row-hashes.ts";

/** The files of an attempt that its commit names. */
export type PartFiles = Pick<
  Commit,
  "part" | "published" | "columns" | "lineCounts" | "deadLetters" | "rowHashes" | "ids" | "cutRows"
>;

type FailedLine = Extract<JournalLine, { outcome: "failed" }>;

/**
 * Writes an attempt's part and dead letters in input order. As long as rows settle in that order,
 * their lines are written at once. From the first row on that does not, the slice is read once more
 * at the end and joined with the journal: only places in the journal are kept in memory, not rows.
 */
export class PartWriter {
  readonly #context: RunContext;
  readonly #task: Task;
  readonly #paths: ReturnType<typeof attemptPaths>;
  readonly #lines: ResultLines;
  readonly #part: LineFile;
  readonly #deadLetters: LineFile;
  /** Hash and index of each row with an id. */
  readonly #ids: bigint[] = [];
  /** Answered rows with possibly more or fewer lines than one. */
  readonly #lineCounts: [row: number, lines: number][] = [];
  readonly #rowsWithoutLine: number[] = [];
  #next: number;
  #rows = 0;
  /** The hashes of all rows, if they were read once more. */
  #rowHashes: RowHashes | undefined;
  #isFinishing = false;

  /** @param listener is told of failed writes until `finish` is called, which throws them. */
  constructor(context: RunContext, task: Task, attempt: string, listener: LineFileListener) {
    this.#context = context;
    this.#task = task;
    this.#paths = attemptPaths(task.task, context.plan, attempt);
    this.#lines = new ResultLines(context, task);
    this.#next = task.firstRow;
    const own: LineFileListener = {
      onDrain: () => listener.onDrain(),
      onFailure: (error) => {
        if (!this.#isFinishing) listener.onFailure(error);
      },
    };
    const written = (lines: string) => this.#lines.written(lines);
    this.#part = new LineFile(context.storage, this.#paths.part, own, written);
    this.#deadLetters = new LineFile(context.storage, this.#paths.deadLetters, own);
  }

  /** True while too much waits to be written. */
  get isFull(): boolean {
    return this.#part.isFull || this.#deadLetters.isFull;
  }

  /** True if a row's lines would be written at once. */
  isNext(index: number): boolean {
    return index === this.#next;
  }

  /** Writes the line of the next row: `text` is its answer or its line, as in a journal. */
  answered(row: InputRow, text: string): void {
    const lines = this.#lines.answered(row, text);
    this.#part.add(lines);
    if (this.#lines.givesRows) this.#lineCounts.push([row.index, lines.split("\n").length]);
    this.#count(row);
  }

  /** Skips the next row, which has no line. */
  filtered(row: InputRow): void {
    this.#lineCounts.push([row.index, 0]);
    this.#rowsWithoutLine.push(row.index);
    this.#count(row);
  }

  /** Writes the lines of the next row, which failed. */
  failed(row: InputRow, line: FailedLine): void {
    const letter = this.#lines.deadLetter(row, line);
    this.#deadLetters.add(letter);
    const result = this.#lines.failed(letter);
    if (result === undefined) this.#rowsWithoutLine.push(row.index);
    else this.#part.add(result);
    this.#count(row);
  }

  /**
   * Writes the rest, and closes the files.
   *
   * @throws SluiceError `ROWS_UNBALANCED` if the slice does not hold the planned rows.
   */
  async finish(outcomes: OutcomeTable): Promise<PartFiles> {
    this.#isFinishing = true;
    const { storage } = this.#context;
    try {
      await this.#joinRest(outcomes);
      this.#assertComplete();
      const part = await this.#part.close();
      return {
        part,
        ...(await encodePart(this.#context, this.#paths, {
          task: this.#task,
          part,
          rowsWithoutLine: this.#rowsWithoutLine,
        })),
        ...(await this.#storeLineCounts()),
        deadLetters: this.#deadLetters.isEmpty ? null : await this.#deadLetters.close(),
        ...(await this.#storeRowHashes()),
        ids: this.#lines.haveIds
          ? await storeFile(storage, this.#paths.ids, sortedIds(this.#ids))
          : null,
        cutRows: await storeCutRows(storage, this.#paths.cutRows, outcomes.cut),
      };
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  /** Abandons the files: none appears. */
  async abort(): Promise<void> {
    await Promise.all([this.#part.abort(), this.#deadLetters.abort()]);
  }

  async #joinRest(outcomes: OutcomeTable): Promise<void> {
    const { slices, firstRow, rows: planned } = this.#task;
    const { storage, plan, openFile } = this.#context;
    const options = {
      ...readOptionsOf(plan.job),
      parse: outcomes.failures > 0 || this.#lines.needValues,
    };
    // Opened even if nothing is left to join: the journal is gone if others sealed the run
    // meanwhile or replaced it, and then nothing of this attempt may appear.
    const journal = new JournalText(await storage.open(this.#paths.journal));
    try {
      if (this.#next === firstRow + planned) return;
      const hashes = this.#hashesRows(outcomes.failures > 0) ? new RowHashes() : undefined;
      for await (const rows of readRows(slices, firstRow, openFile, options)) {
        for (const row of rows) {
          hashes?.add(row);
          const outcome = outcomes.of(row.index);
          if (row.index < this.#next || outcome === "excluded") continue;
          const place = outcomes.place(row.index);
          const text = journal.cached(place) ?? (await journal.read(place));
          this.#join(row, outcome, text);
          if (this.isFull) await Promise.all([this.#part.drained(), this.#deadLetters.drained()]);
        }
      }
      this.#rowHashes = hashes;
    } finally {
      await journal.close();
    }
  }

  #join(row: InputRow, outcome: RowOutcome, text: string): void {
    if (outcome === "answered") this.answered(row, text);
    else if (outcome === "failed") this.failed(row, parseMessage(text) as FailedLine);
    else this.filtered(row);
  }

  async #storeLineCounts(): Promise<Pick<Commit, "lineCounts">> {
    const counts = this.#lineCounts.filter(([, lines]) => lines !== 1);
    if (counts.length === 0) return {};
    const { lineCounts: path } = this.#paths;
    return { lineCounts: await storeFile(this.#context.storage, path, recordBytes(counts)) };
  }

  /**
   * A failed row may be corrected in the input: then the others must be unchanged. Rows of a retry
   * are compared with those of the run's own task.
   */
  #hashesRows(hasFailed: boolean): boolean {
    return hasFailed && this.#task.only === undefined;
  }

  async #storeRowHashes(): Promise<Pick<Commit, "rowHashes">> {
    const { storage, plan, openFile } = this.#context;
    if (!this.#hashesRows(!this.#deadLetters.isEmpty)) return {};
    const hashes = this.#rowHashes ?? new RowHashes();
    if (!this.#rowHashes) {
      const { slices, firstRow } = this.#task;
      for await (const rows of readRows(slices, firstRow, openFile, readOptionsOf(plan.job))) {
        for (const row of rows) hashes.add(row);
      }
    }
    return { rowHashes: await storeFile(storage, this.#paths.rowHashes, hashes.toBytes()) };
  }

  #count(row: InputRow): void {
    this.#next = row.index + 1;
    this.#rows++;
    if (!this.#lines.haveIds) return;
    const id = this.#lines.idOf(row);
    if (id !== null) this.#ids.push(hashOfId(id), BigInt(row.index));
  }

  /** Each planned row has exactly one outcome, and the slice held each of them once. */
  #assertComplete(): void {
    const planned = plannedRows(this.#task);
    if (this.#rows === planned) return;
    throw new SluiceError(
      "ROWS_UNBALANCED",
      `task ${this.#task.task}: ${planned} rows planned, ${this.#rows} read`,
    );
  }
}

async function storeCutRows(
  storage: Storage,
  path: string,
  rows: readonly number[],
): Promise<FileRecord | null> {
  if (rows.length === 0) return null;
  return storeFile(storage, path, Buffer.from(indexSetOf(rows)));
}

const windowBytes = 1024 * 1024;

/**
 * Reads places of a journal. Answers are there roughly in input order, so one window that follows
 * the reader serves nearly all of them.
 */
class JournalText {
  readonly #reader: RandomReader;
  #window: Buffer = Buffer.alloc(0);
  /** The window as text with one character for each byte: slices of it cost almost nothing. */
  #ascii: string | undefined;
  #start = 0;

  constructor(reader: RandomReader) {
    this.#reader = reader;
  }

  /** The text at `place`, or undefined if it is outside the window. */
  cached({ offset, bytes }: JournalPlace): string | undefined {
    const at = offset - this.#start;
    if (at < 0 || at + bytes > this.#window.length) return undefined;
    return this.#ascii?.slice(at, at + bytes) ?? this.#window.toString("utf8", at, at + bytes);
  }

  async read(place: JournalPlace): Promise<string> {
    const known = this.cached(place);
    if (known !== undefined) return known;
    // Some margin before the place: the next row's answer may have come a little earlier.
    this.#start = Math.max(0, place.offset - windowBytes / 4);
    const length = Math.max(windowBytes, place.offset + place.bytes - this.#start);
    this.#window = Buffer.from(await this.#reader.read(this.#start, length));
    this.#ascii = isAscii(this.#window) ? this.#window.toString("latin1") : undefined;
    const text = this.cached(place);
    if (text === undefined) throw new SluiceError("RUN_DAMAGED", "a journal is too short");
    return text;
  }

  close(): Promise<void> {
    return this.#reader.close();
  }
}

const guessedRows = 100;

type EncodedPart = Pick<Commit, "published" | "columns">;

/**
 * Parts of one worker are encoded one after the other: each takes the memory of a row group. The
 * key is the worker's storage: simulated workers share a process and must not wait for dead ones.
 */
const lastTurns = new WeakMap<Storage, Promise<unknown>>();

/**
 * Encodes an attempt's part in the published format, if that differs: the same rows, and their
 * columns. Only the seal knows the columns of all tasks.
 */
function encodePart(
  context: RunContext,
  paths: ReturnType<typeof attemptPaths>,
  written: WrittenPart,
): Promise<EncodedPart> {
  const last = lastTurns.get(context.storage) ?? Promise.resolve();
  const turn = last.then(() => encodeInTurn(context, paths, written));
  const ended = turn.catch(() => {});
  lastTurns.set(context.storage, ended);
  return turn;
}

async function encodeInTurn(
  context: RunContext,
  paths: ReturnType<typeof attemptPaths>,
  written: WrittenPart,
): Promise<EncodedPart> {
  const { storage, plan } = context;
  const { part } = written;
  const { format, ending, isLines, isParts, needsColumns } = publishedForm(plan);
  if (isLines) return {};
  const columnsOf = (maxLines?: number) =>
    columnsOfLines(storage, part.path, plan.columns ?? [], maxLines);
  const encode = (columns: readonly Column[]) => {
    const lines = readLineBatches(storage, part.path);
    return encodeFile(storage, paths.encoded(ending), lines, { format, columns });
  };
  // A retry's rows are merged into others before they are published.
  const isPublished = isParts && plan.generation === 1;
  if (isPublished && format.name === "parquet") {
    // The encoder refuses what does not fit, so most rows are read only once.
    const columns = await columnsOf(guessedRows);
    const path = paths.encoded(ending);
    const carried = await carryPart(context, written, path, { format, columns }).catch(
      ignoreMisfit,
    );
    const published = carried ?? (await encode(columns).catch(ignoreMisfit));
    if (published) return { published, columns: await storeColumns(columns) };
  }
  const columns = needsColumns ? await columnsOf() : [];
  const found = needsColumns ? { columns: await storeColumns(columns) } : {};
  return isPublished ? { published: await encode(columns), ...found } : found;

  function storeColumns(columns: readonly Column[]): Promise<FileRecord> {
    return storeFile(storage, paths.columns, recordBytes(columns));
  }
}

function ignoreMisfit(error: unknown): undefined {
  if (!(error instanceof ColumnMisfit)) throw error;
}
