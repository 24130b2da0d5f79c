import { isAscii } from "node:buffer";
import type { Hash } from "node:crypto";
import type { InputRow } from "../../data/row.ts";
import { readRows } from "../../data/slices.ts";
import { spliceField } from "../../data/splice.ts";
import type { RandomReader, Storage, Writer } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex, sha256Stream } from "../../foundation/hashing.ts";
import { formatIndexSet, rangesOf } from "../../foundation/index-set.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { attemptPaths } from "../layout.ts";
import { BatchLines, resultsHoldFailed, writesBatchLines } from "../openai-batch/batch-lines.ts";
import { longestLineBytes, type PlannedFile, type Task } from "../plan.ts";
import type { RunContext } from "../run-context.ts";
import type { Commit } from "./commit.ts";
import { hashOfId, sortedIds } from "./id-hashes.ts";
import type { JournalPlace } from "./journal.ts";
import type { JournalLine, RequestRecord } from "./journal-line.ts";
import type { OutcomeTable } from "./outcomes.ts";

/** A row that could not be answered, as it is written for people and for `sluice retry`. */
export interface DeadLetter {
  /** The row, or the text that could not be read as one. */
  row: unknown;
  index: number;
  file: string;
  line: number;
  id: string | number | null;
  /** Name of its dataset, where the job has datasets. */
  dataset?: string;
  code: string;
  message: string;
  attempts: number;
  /** Answers that the row already has, in the shape of `output.field`. */
  partial?: unknown;
  /** Text of the last answer, where the row failed because its form was wrong. */
  lastAnswer?: string;
}

/** The files of an attempt that its commit names. */
export type PartFiles = Pick<Commit, "part" | "deadLetters" | "ids" | "cutRows">;

/**
 * Writes an attempt's part and dead letters in input order: reads the slice once more and joins it
 * with the journal. Rows are never held, only their places in the journal.
 */
export async function writePart(
  context: RunContext,
  task: Task,
  attempt: string,
  outcomes: OutcomeTable,
): Promise<PartFiles> {
  const { storage, plan } = context;
  const paths = attemptPaths(task.task, plan, attempt);
  const part = new PartFile(storage, paths.part);
  const deadLetters = new PartFile(storage, paths.deadLetters);
  const journal = new JournalText(await storage.open(paths.journal));
  const idField = task.slices.find((slice) => slice.id !== undefined);
  const ids: bigint[] = [];
  const join = new RowJoin(context, task, outcomes, journal);
  try {
    const options = {
      maxLineBytes: longestLineBytes(plan),
      parse: idField !== undefined || join.hasFailures || writesBatchLines(plan.job),
    };
    await part.open();
    for await (const rows of readRows(task.slices, task.firstRow, context.openFile, options)) {
      await join.rows(rows, part, deadLetters);
      if (idField) collectIds(rows, task, outcomes, ids);
    }
    join.assertComplete();
    return {
      part: await part.close(),
      deadLetters: deadLetters.isOpen ? await deadLetters.close() : null,
      ids: idField ? await storeFile(storage, paths.ids, sortedIds(ids)) : null,
      cutRows: await storeCutRows(storage, paths.cutRows, outcomes.cut),
    };
  } catch (error) {
    await Promise.all([part.abort(), deadLetters.abort()]);
    throw error;
  } finally {
    await journal.close();
  }
}

const datasetFieldJson = '"dataset"';

/** Turns rows and their journaled outcomes into lines. */
class RowJoin {
  readonly hasFailures: boolean;
  readonly #context: RunContext;
  readonly #task: Task;
  readonly #outcomes: OutcomeTable;
  readonly #journal: JournalText;
  readonly #fieldJson: string;
  readonly #batchLines: BatchLines | undefined;
  readonly #resultsHoldFailed: boolean;
  #joined = 0;

  constructor(context: RunContext, task: Task, outcomes: OutcomeTable, journal: JournalText) {
    this.#context = context;
    this.#task = task;
    this.#outcomes = outcomes;
    this.#journal = journal;
    this.#fieldJson = JSON.stringify(context.plan.job.output.field);
    this.hasFailures = outcomes.failures > 0;
    const { plan } = context;
    this.#batchLines = writesBatchLines(plan.job) ? new BatchLines(plan) : undefined;
    this.#resultsHoldFailed = resultsHoldFailed(plan.job);
  }

  async rows(rows: readonly InputRow[], part: PartFile, deadLetters: PartFile): Promise<void> {
    for (const row of rows) {
      const outcome = this.#outcomes.of(row.index);
      if (outcome === "excluded") continue;
      this.#joined++;
      if (outcome === "answered") {
        const place = this.#outcomes.place(row.index);
        const text = this.#journal.cached(place) ?? (await this.#journal.read(place));
        part.add(this.#result(row, text));
        if (part.isFull) await part.flush();
      } else if (outcome === "failed") {
        if (!deadLetters.isOpen) await deadLetters.open();
        const letter = await this.#deadLetter(row);
        deadLetters.add(letter);
        if (deadLetters.isFull) await deadLetters.flush();
        if (!this.#resultsHoldFailed) continue;
        part.add(this.#batchLines!.failed(letter));
        if (part.isFull) await part.flush();
      }
    }
  }

  /** Each planned row has exactly one outcome, and the slice held each of them once. */
  assertComplete(): void {
    const planned = this.#task.onlyRows ?? this.#task.rows;
    if (this.#joined === planned) return;
    throw new SluiceError(
      "ROWS_UNBALANCED",
      `task ${this.#task.task}: ${planned} rows planned, ${this.#joined} read`,
    );
  }

  #result(row: InputRow, text: string): string {
    const { index, raw, value } = row;
    const id = this.#idOf(row);
    if (this.#batchLines) return this.#batchLines.answered({ index, row: value, id }, text);
    return this.#named(row, this.#withAnswer(raw, text));
  }

  #withAnswer(raw: string, text: string): string {
    const { include, field } = this.#context.plan.job.output;
    if (include.length === 0) return spliceField(raw, this.#fieldJson, text);
    const line = JSON.parse(text) as Extract<JournalLine, { outcome: "answered" }>;
    const withAnswer = spliceField(raw, this.#fieldJson, JSON.stringify(line.answer));
    const metadata = line.requests.map((request) => metadataOf(request, include));
    return spliceField(withAnswer, JSON.stringify(`${field}Metadata`), JSON.stringify(metadata));
  }

  #named({ dataset }: InputRow, line: string): string {
    if (dataset === undefined) return line;
    return spliceField(line, datasetFieldJson, JSON.stringify(dataset));
  }

  async #deadLetter(row: InputRow): Promise<string> {
    const text = await this.#journal.read(this.#outcomes.place(row.index));
    const line = JSON.parse(text) as Extract<JournalLine, { outcome: "failed" }>;
    const facts: Omit<DeadLetter, "row"> = {
      index: row.index,
      file: row.file,
      line: row.line,
      id: this.#idOf(row),
      ...(row.dataset === undefined ? {} : { dataset: row.dataset }),
      ...line.error,
      attempts: line.attempts,
      ...(line.partial === undefined ? {} : { partial: line.partial }),
      ...(line.lastAnswer === undefined ? {} : { lastAnswer: line.lastAnswer }),
    };
    // The row's own text: numbers that JavaScript would round stay as they are.
    const rowJson = row.value === undefined ? JSON.stringify(row.raw) : row.raw;
    return `{"row":${rowJson},${JSON.stringify(facts).slice(1)}`;
  }

  #idOf(row: InputRow): string | number | null {
    const sourceId = this.#task.slices.find((slice) => slice.file === row.file)?.id;
    const id = sourceId === undefined ? undefined : row.value?.[sourceId];
    return typeof id === "string" || typeof id === "number" ? id : null;
  }
}

type Included = RunContext["plan"]["job"]["output"]["include"];

function metadataOf(request: RequestRecord, include: Included): JsonObject {
  const { promptTokens, cachedTokens = 0, tokens, finishReason, seconds, attempts } = request;
  const { logprobs = [], spans = [{}] } = request;
  const facts = {
    usage: {
      promptTokens,
      cachedTokens,
      completionTokens: tokens.reduce((a, b) => a + b, 0),
      ...(tokens.length > 1 ? { answerTokens: tokens } : {}),
    },
    finishReason,
    seconds,
    attempts,
    // Of several answers a list each, as with the answers themselves.
    logprobs: (logprobs.length === 1 ? logprobs[0]! : logprobs) as unknown as Json,
    spans: (spans.length === 1 ? spans[0]! : spans) as unknown as Json,
  };
  return Object.fromEntries(include.map((name) => [name, facts[name]]));
}

const flushChars = 1024 * 1024;

/** A file of lines that is hashed while it is written. */
class PartFile {
  readonly #storage: Storage;
  readonly #path: string;
  readonly #digest: Hash = sha256Stream();
  #writer: Writer | undefined;
  #lines: string[] = [];
  #chars = 0;
  #bytes = 0;

  constructor(storage: Storage, path: string) {
    this.#storage = storage;
    this.#path = path;
  }

  get isOpen(): boolean {
    return this.#writer !== undefined;
  }

  get isFull(): boolean {
    return this.#chars >= flushChars;
  }

  async open(): Promise<void> {
    this.#writer = await this.#storage.writer(this.#path);
  }

  add(line: string): void {
    this.#lines.push(line);
    this.#chars += line.length;
  }

  async flush(): Promise<void> {
    if (this.#lines.length === 0) return;
    const data = Buffer.from(`${this.#lines.join("\n")}\n`);
    this.#lines = [];
    this.#chars = 0;
    this.#bytes += data.length;
    this.#digest.update(data);
    await this.#writer!.write(data);
  }

  async close(): Promise<PlannedFile> {
    await this.flush();
    await this.#writer!.close();
    this.#writer = undefined;
    return { path: this.#path, sha256: this.#digest.digest("hex"), bytes: this.#bytes };
  }

  async abort(): Promise<void> {
    await this.#writer?.abort();
  }
}

const windowBytes = 1024 * 1024;

/**
 * Reads places of a journal. Answers stand there roughly in input order, so one window that follows
 * the reader serves nearly all of them.
 */
class JournalText {
  readonly #reader: RandomReader;
  #window: Buffer = Buffer.alloc(0);
  /** The window as text, where every byte is one character: slices of it cost nearly nothing. */
  #ascii: string | undefined;
  #start = 0;

  constructor(reader: RandomReader) {
    this.#reader = reader;
  }

  /** The text at `place`, or undefined where the window does not hold it. */
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

function collectIds(
  rows: readonly InputRow[],
  task: Task,
  outcomes: OutcomeTable,
  ids: bigint[],
): void {
  for (const row of rows) {
    if (outcomes.of(row.index) === "excluded") continue;
    const field = task.slices.find((slice) => slice.file === row.file)?.id;
    const id = field === undefined ? undefined : row.value?.[field];
    if (typeof id === "string" || typeof id === "number") ids.push(hashOfId(id), BigInt(row.index));
  }
}

async function storeCutRows(
  storage: Storage,
  path: string,
  rows: readonly number[],
): Promise<PlannedFile | null> {
  if (rows.length === 0) return null;
  return storeFile(storage, path, Buffer.from(formatIndexSet(rangesOf(rows))));
}

async function storeFile(storage: Storage, path: string, bytes: Buffer): Promise<PlannedFile> {
  await storage.replace(path, bytes);
  return { path, sha256: sha256Hex(bytes), bytes: bytes.length };
}
