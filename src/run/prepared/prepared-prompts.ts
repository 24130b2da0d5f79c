import type { Hash } from "node:crypto";
import type { InputRow, Slice } from "../../data/row.ts";
import type { RandomReader, Storage, Writer } from "../../data/storage/storage.ts";
import type { Engine, PromptWords } from "../../engines/engine.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { digestOf, sha256Stream } from "../../foundation/hashing.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { PreparedRow, RequestKeeper } from "../../prompt/prepared-row.ts";
import { changedPromptSet, type PromptSet } from "../../prompt/prompt-set.ts";
import type { RowRequest } from "../../prompt/row-request.ts";
import type { ArrangedAttempt } from "../attempt/attempt.ts";
import { readLines } from "../directory/lines.ts";
import type { JobSpec } from "../job/schema.ts";
import { plannedRows, type Task } from "../plan/plan.ts";

/**
 * Characters of prompts that an engine tokenizes at a time, ahead of the requests: few enough that
 * its requests need not wait.
 */
export const maxTokenizedChars = 32 * 1024;

/** The engine's identity. */
interface Tokenizer {
  tokenize: NonNullable<Engine["tokenize"]>;
  /** A digest of everything that decides the tokens. */
  digest: string;
}

interface RenderedInput extends Pick<InputRow, "index" | "value"> {
  /** Null if the row has no request. */
  requests: RowRequest[] | null;
}

interface PreparedPromptsOptions {
  /** Rooted at the folder of prepared prompts. */
  storage: Storage;
  job: JobSpec;
  promptSet: PromptSet;
  keeper: RequestKeeper;
  /** Tokenizes prompts; absent if the engine has no tokenizer. */
  tokenize?: Engine["tokenize"] | undefined;
  logger: Logger;
}

/**
 * Rendered prompts, with their tokens if the engine makes them, kept in a folder for other runs: a
 * file for each task, named by the digest of the rows' bytes, the prompts, the tokenizer and
 * `sequenceLen`. A file appears whole or not at all, and two processes write the same content; a
 * damaged file is made again. Memory holds one line of it.
 */
export class PreparedPrompts {
  /** The prompts of the job, with those of a row at hand. */
  readonly promptSet: PromptSet;
  readonly #options: PreparedPromptsOptions;
  readonly #kept = new WeakMap<JsonObject, PreparedRow>();

  constructor(options: PreparedPromptsOptions) {
    this.#options = options;
    this.promptSet = changedPromptSet(options.promptSet, {
      requests: (...row) => this.#take(...row),
    });
  }

  /** The same rows, each with its prompts; those of a new task are kept. */
  async *arrange(
    batches: AsyncIterable<InputRow[]>,
    attempt: ArrangedAttempt,
  ): AsyncGenerator<InputRow[]> {
    const { storage, job, logger } = this.#options;
    const tokenizer = await this.#tokenizer().catch((error: Error) => error);
    if (tokenizer instanceof Error) {
      this.#warnUnprepared(tokenizer);
      return yield* unprepared(batches, attempt);
    }
    const path = preparedPath(attempt.task, job, tokenizer?.digest);
    const state = await preparedState(storage, path).catch(() => "absent" as const);
    if (state === "damaged") {
      logger.log("warn", `prepared prompts were damaged and are made again: ${path}`);
    }
    if (state === "whole") yield* this.#found(batches, attempt, path);
    else yield* this.#made(batches, attempt, path, tokenizer);
  }

  async *#found(batches: AsyncIterable<InputRow[]>, attempt: ArrangedAttempt, path: string) {
    const { task } = attempt;
    const file = new PreparedReader(this.#options.storage, path);
    try {
      for await (const rows of batches) {
        let hits = 0;
        for (const { index, value } of rows) {
          const kept = await file.preparedOf(index - task.firstRow).catch(() => null);
          if (!value || !kept) continue;
          this.#kept.set(value, kept);
          hits++;
        }
        attempt.notePrepared({ hits, misses: rows.length - hits });
        yield rows;
      }
    } finally {
      await file.close();
    }
  }

  async *#made(
    batches: AsyncIterable<InputRow[]>,
    attempt: ArrangedAttempt,
    path: string,
    tokenizer: Tokenizer | undefined,
  ) {
    const { task } = attempt;
    const { storage } = this.#options;
    const file = new PreparedWriter(storage, path, (error) => this.#warnUnprepared(error));
    let seen = 0;
    try {
      for await (const rows of batches) {
        for (const group of this.#rendered(rows)) {
          if (file.isOpen && tokenizer) {
            // A request that continues from an answer has no words yet.
            const requests = group
              .flatMap((row) => row.requests ?? [])
              .filter(({ origin }) => origin.after === undefined);
            await addTokens(requests, tokenizer).catch((error: Error) => file.fail(error));
          }
          for (const { index, value, requests } of group) {
            const kept = requests && this.#options.keeper.keep(requests);
            if (value && kept) this.#kept.set(value, kept);
            await file.add({ row: index - task.firstRow, kept });
          }
        }
        seen += rows.length;
        attempt.notePrepared({ hits: 0, misses: rows.length });
        yield rows;
      }
      // Rows that an earlier attempt answered were not read: then the task is incomplete.
      if (seen === plannedRows(task)) await file.close();
    } finally {
      await file.abort();
    }
  }

  /** Rows in groups of limited size: lists may need many requests each. */
  *#rendered(rows: readonly InputRow[]): Generator<RenderedInput[]> {
    let group: RenderedInput[] = [];
    let chars = 0;
    for (const row of rows) {
      const requests = this.#render(row);
      group.push({ index: row.index, value: row.value, requests });
      for (const request of requests ?? []) chars += charsOf(request);
      if (chars < maxTokenizedChars) continue;
      yield group;
      group = [];
      chars = 0;
    }
    yield group;
  }

  #render({ value, index, dataset, raw, error }: InputRow): RowRequest[] | null {
    if (error || !value) return null;
    try {
      return this.#options.promptSet.requests(value, index, dataset, raw);
    } catch {
      // The request fails with the reason when it is sent.
      return null;
    }
  }

  #warnUnprepared({ message }: Error): void {
    this.#options.logger.log("warn", `prepared prompts are not kept: ${message}`);
  }

  /** Undefined if the engine has none. */
  async #tokenizer(): Promise<Tokenizer | undefined> {
    const { tokenize } = this.#options;
    return tokenize && { tokenize, digest: (await tokenize([])).tokenizer };
  }

  #take(...asked: Parameters<PromptSet["requests"]>): RowRequest[] {
    const { promptSet, keeper } = this.#options;
    const [row, index, , raw] = asked;
    const kept = this.#kept.get(row);
    return kept ? keeper.restore(kept, index, row, raw) : promptSet.requests(...asked);
  }
}

async function* unprepared(batches: AsyncIterable<InputRow[]>, attempt: ArrangedAttempt) {
  for await (const rows of batches) {
    attempt.notePrepared({ hits: 0, misses: rows.length });
    yield rows;
  }
}

/** @throws SluiceError `ENGINE_DIED`, also if it came back with another model. */
async function addTokens(
  requests: readonly RowRequest[],
  { tokenize, digest }: Tokenizer,
): Promise<void> {
  // Prompts of a job may differ only in the form of the answer.
  const alike = [...Map.groupBy(requests, wordsText).values()];
  for (const group of grouped(alike)) {
    const { tokenizer, prompts } = await tokenize(group.map(([first]) => wordsOf(first!)));
    if (tokenizer !== digest) throw new SluiceError("ENGINE_DIED", "its tokenizer has changed");
    for (const [at, tokens] of prompts.entries()) {
      if (tokens) for (const request of group[at]!) request.tokens = tokens;
    }
  }
}

function wordsOf({ messages, prompt = "" }: RowRequest): PromptWords {
  return messages ? { messages } : { prompt };
}

function wordsText({ messages, prompt }: RowRequest): string {
  return JSON.stringify(messages ?? prompt ?? "");
}

/** Requests in groups of limited size, those with the same text together. */
function grouped(alike: readonly RowRequest[][]): RowRequest[][][] {
  const groups: RowRequest[][][] = [];
  let chars = Number.POSITIVE_INFINITY;
  for (const requests of alike) {
    const own = charsOf(requests[0]!);
    if (chars + own > maxTokenizedChars) {
      groups.push([]);
      chars = 0;
    }
    groups.at(-1)!.push(requests);
    chars += own;
  }
  return groups;
}

function charsOf({ messages = [], prompt = "" }: RowRequest): number {
  return messages.reduce((sum, { content }) => sum + content.length, prompt.length);
}

/** Everything that decides the rows of a slice. */
function rowsKey(slice: Slice, { input }: JobSpec): Json[] {
  const { sha256, format, dataset, header, skipRows, rows, source } = slice;
  const { columns, schema } = input[source ?? -1] ?? {};
  // Rows of these formats hold the path of their file.
  const file = format === "files" || format === "text-file" ? slice.file : undefined;
  const others = { header: header?.sha256, skipRows, columns, schema, file };
  const named = Object.entries(others).filter(([, value]) => value !== undefined);
  // How many rows of its bytes belong to the slice.
  if (skipRows !== undefined || format === "parquet" || format === "arrow")
    named.push(["rows", rows]);
  const key: Json[] = [sha256, format, dataset ?? null];
  return named.length === 0 ? key : [...key, Object.fromEntries(named) as JsonObject];
}

function preparedPath({ slices, only }: Task, job: JobSpec, tokenizer: string | undefined): string {
  const { dataset, prompt, prompts, schema, truncateFeatures, sequenceLen, model } = job;
  const entries = dataset?.map(({ path: _, data_files: __, ...entry }) => entry);
  const digest = digestOf({
    // A new number whenever the same templates give other prompts.
    format: 4,
    rows: slices.map((slice) => rowsKey(slice, job)),
    only: only ?? null,
    prompts: JSON.parse(
      JSON.stringify({ entries, prompt, prompts, schema, truncateFeatures }),
    ) as Json,
    tokenizer: [model.engine, tokenizer ?? model.name],
    sequenceLen: sequenceLen ?? null,
  });
  return `${digest.slice(0, 2)}/${digest}.jsonl`;
}

/** A line of a file of prepared prompts. */
interface PreparedLine {
  row: number;
  /** `null` if the row must be rendered each time. */
  kept: PreparedRow | null;
}

/** The last line: the SHA-256 of all lines before it. */
const sealOf = (digest: Hash) => `${JSON.stringify({ sha256: digest.digest("hex") })}\n`;
const sealBytes = sealOf(sha256Stream()).length;

/** Checks whether a file exists in full: it is read once, one chunk at a time. */
export async function preparedState(
  storage: Storage,
  path: string,
): Promise<"absent" | "whole" | "damaged"> {
  if ((await storage.stat(path)) === undefined) return "absent";
  const reader = await storage.open(path);
  try {
    return (await isSealed(reader)) ? "whole" : "damaged";
  } finally {
    await reader.close();
  }
}

async function isSealed(reader: RandomReader): Promise<boolean> {
  const end = reader.bytes - sealBytes;
  if (end < 0) return false;
  const digest = sha256Stream();
  for (let offset = 0; offset < end; offset += limits.readChunkBytes) {
    const length = Math.min(limits.readChunkBytes, end - offset);
    digest.update(await reader.read(offset, length));
  }
  return Buffer.from(await reader.read(end, sealBytes)).toString("latin1") === sealOf(digest);
}

/** Reads the rows of a whole file, in their order. */
class PreparedReader {
  readonly #lines: AsyncGenerator<string>;
  #at: PreparedLine | undefined;

  constructor(storage: Storage, path: string) {
    this.#lines = readLines(storage, path);
  }

  /** The prepared prompts of a row; rows are requested in order, and some may be skipped. */
  async preparedOf(row: number): Promise<PreparedRow | null> {
    while (this.#at === undefined || this.#at.row < row) {
      const { done, value } = await this.#lines.next();
      if (done) return null;
      this.#at = JSON.parse(value) as PreparedLine;
    }
    return this.#at.row === row ? this.#at.kept : null;
  }

  async close(): Promise<void> {
    await this.#lines.return(undefined);
  }
}

/**
 * Writes a file, which appears whole or not at all. Calls `onFailure` once, at the first failure.
 */
class PreparedWriter {
  readonly #storage: Storage;
  readonly #path: string;
  readonly #onFailure: (error: Error) => void;
  readonly #digest = sha256Stream();
  #writer: Writer | undefined;
  #text = "";
  #hasFailed = false;

  constructor(storage: Storage, path: string, onFailure: (error: Error) => void) {
    this.#storage = storage;
    this.#path = path;
    this.#onFailure = onFailure;
  }

  /** False once nothing more is kept. */
  get isOpen(): boolean {
    return !this.#hasFailed;
  }

  async add({ row, kept }: PreparedLine): Promise<void> {
    await this.#guarded(async () => {
      const line = JSON.stringify({ row, kept });
      const isTooLong = line.length > limits.maxLineBytes;
      this.#text += `${isTooLong ? JSON.stringify({ row, kept: null }) : line}\n`;
      if (this.#text.length >= limits.readChunkBytes) await this.#flush();
    });
  }

  /** From here on, other runs find it. */
  async close(): Promise<void> {
    await this.#guarded(async () => {
      await this.#flush();
      await this.#writer!.write(Buffer.from(sealOf(this.#digest)));
      await this.#writer!.close();
      this.#writer = undefined;
    });
  }

  /** Abandons the file, for a given reason. */
  fail(error: Error): void {
    if (!this.#hasFailed) this.#onFailure(error);
    this.#hasFailed = true;
  }

  async abort(): Promise<void> {
    await this.#writer?.abort().catch(() => {});
  }

  async #flush(): Promise<void> {
    const data = Buffer.from(this.#text);
    this.#text = "";
    this.#writer ??= await this.#storage.writer(this.#path);
    this.#digest.update(data);
    await this.#writer.write(data);
  }

  async #guarded(write: () => Promise<void>): Promise<void> {
    if (this.#hasFailed) return;
    try {
      await write();
    } catch (error) {
      this.fail(error as Error);
    }
  }
}
