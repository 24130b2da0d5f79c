import type { InputRow } from "../../data/row.ts";
import type { Storage, Writer } from "../../data/storage/storage.ts";
import { digestOf } from "../../foundation/hashing.ts";
import type { GenerationParameters, InferenceRequest } from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { ArrangedAttempt } from "../attempt/row-arrangement.ts";
import type { JobSpec } from "../job/schema.ts";
import { readLines } from "../lines.ts";
import type { Task } from "../plan.ts";

/** What a request has besides the row's index and the job's parameters. */
type PreparedRequest = Omit<InferenceRequest, "index" | "parameters">;

/** A line of a file of prepared prompts: `null` where the row has to be rendered each time. */
interface PreparedRow {
  row: number;
  requests: PreparedRequest[] | null;
}

interface PreparedOptions {
  /** Rooted at the folder of prepared prompts. */
  storage: Storage;
  job: JobSpec;
  promptSet: PromptSet;
  logger: Logger;
}

/**
 * Rendered prompts that are kept in a folder for other runs: a file for each shard, named by the
 * digest of the rows' bytes, the prompts, the model and `sequenceLen`. A file appears whole or not
 * at all, and two processes that write one write the same. Memory holds a line of it.
 */
export class PreparedPrompts {
  /** The prompts of the job; of a row that is at hand here it knows them already. */
  readonly promptSet: PromptSet;
  readonly #options: PreparedOptions;
  readonly #requests = new WeakMap<JsonObject, readonly PreparedRequest[]>();
  /** The same in every request of the job. */
  #parameters: GenerationParameters | undefined;

  constructor(options: PreparedOptions) {
    this.#options = options;
    const { promptSet } = options;
    this.promptSet = {
      names: promptSet.names,
      requests: (row, index, dataset) => this.#take(row, index, dataset),
      ready: (requests, responses, at) => promptSet.ready(requests, responses, at),
      accept: (request, response) => promptSet.accept(request, response),
      reask: (request, badText, problem) => promptSet.reask(request, badText, problem),
      answer: (requests, responses) => promptSet.answer(requests, responses),
      partialAnswer: (requests, responses) => promptSet.partialAnswer(requests, responses),
    };
  }

  /** The same rows, each with its prompts at hand; those of a shard that is new are kept. */
  async *prepare(
    batches: AsyncIterable<InputRow[]>,
    attempt: ArrangedAttempt,
  ): AsyncGenerator<InputRow[]> {
    const path = preparedPath(attempt.task, this.#options.job);
    const isKnown = await this.#options.storage.stat(path).catch(() => undefined);
    yield* isKnown ? this.#found(batches, attempt, path) : this.#made(batches, attempt, path);
  }

  async *#found(batches: AsyncIterable<InputRow[]>, attempt: ArrangedAttempt, path: string) {
    const lines = readLines(this.#options.storage, path);
    const rowsOf = preparedRows(lines, attempt.task.firstRow);
    try {
      for await (const rows of batches) {
        let hits = 0;
        for (const { index, value } of rows) {
          const requests = await rowsOf(index).catch(() => undefined);
          if (!value || !requests) continue;
          this.#requests.set(value, requests);
          hits++;
        }
        attempt.notePrepared({ hits, misses: rows.length - hits });
        yield rows;
      }
    } finally {
      await lines.return(undefined);
    }
  }

  async *#made(batches: AsyncIterable<InputRow[]>, attempt: ArrangedAttempt, path: string) {
    const { task } = attempt;
    const file = new PreparedFile(this.#options, path);
    let seen = 0;
    try {
      for await (const rows of batches) {
        for (const row of rows) {
          await file.add({ row: row.index - task.firstRow, requests: this.#render(row) });
        }
        seen += rows.length;
        attempt.notePrepared({ hits: 0, misses: rows.length });
        yield rows;
      }
      // Rows that an earlier attempt answered were not read: then it is not the whole shard.
      if (seen === (task.onlyRows ?? task.rows)) await file.close();
    } finally {
      await file.abort();
    }
  }

  /** What is kept of a row: nothing where its requests are more than their words. */
  #render({ value, index, dataset, error }: InputRow): PreparedRequest[] | null {
    if (error || !value) return null;
    try {
      const requests = this.#options.promptSet.requests(value, index, dataset);
      if (!requests.every(isPlain)) return null;
      const kept = requests.map(({ index: _, parameters, ...prepared }) => {
        this.#parameters ??= parameters;
        return prepared;
      });
      this.#requests.set(value, kept);
      return kept;
    } catch {
      // It fails when it is asked, and is told why then.
      return null;
    }
  }

  #take(row: JsonObject, index: number, dataset: string | undefined): InferenceRequest[] {
    const prepared = this.#requests.get(row);
    // What is kept lacks the parameters, which the first row that is rendered tells.
    if (prepared === undefined || this.#parameters === undefined) {
      const requests = this.#options.promptSet.requests(row, index, dataset);
      this.#parameters ??= requests.find(isPlain)?.parameters;
      return requests;
    }
    const parameters = this.#parameters;
    return prepared.map((request) => ({ ...request, index, parameters }));
  }
}

/** True for a request that is its words, its name and what to do when it is too long. */
function isPlain({ after, element, embed, slottedLine, structure }: InferenceRequest): boolean {
  return [after, element, embed, slottedLine, structure].every((it) => it === undefined);
}

/** Where the prompts of a shard are kept. */
function preparedPath({ slices, only }: Task, job: JobSpec): string {
  const { dataset, prompt, prompts, truncateFeatures, sequenceLen, model } = job;
  const entries = dataset?.map(({ path: _, data_files: __, ...entry }) => entry);
  const digest = digestOf({
    format: 1,
    rows: slices.map(({ sha256, format, dataset: name }) => [sha256, format, name ?? null]),
    only: only ?? null,
    prompts: JSON.parse(JSON.stringify({ entries, prompt, prompts, truncateFeatures })) as Json,
    tokenizer: [model.engine, model.name],
    sequenceLen: sequenceLen ?? null,
  });
  return `${digest.slice(0, 2)}/${digest}.jsonl`;
}

/** Finds the prepared requests of rows that are asked for in input order. */
function preparedRows(lines: AsyncGenerator<string>, firstRow: number) {
  let at: PreparedRow | undefined;
  return async (index: number): Promise<readonly PreparedRequest[] | null> => {
    while (at === undefined || at.row + firstRow < index) {
      const { done, value } = await lines.next();
      if (done) return null;
      at = JSON.parse(value) as PreparedRow;
    }
    return at.row + firstRow === index ? at.requests : null;
  };
}

/** A file of prepared prompts while it is written. A folder that fails stops no run. */
class PreparedFile {
  readonly #options: PreparedOptions;
  readonly #path: string;
  #writer: Writer | undefined;
  #text = "";
  #hasFailed = false;

  constructor(options: PreparedOptions, path: string) {
    this.#options = options;
    this.#path = path;
  }

  async add(row: PreparedRow): Promise<void> {
    if (this.#hasFailed) return;
    this.#text += `${JSON.stringify(row)}\n`;
    if (this.#text.length >= limits.readChunkBytes) await this.#guarded(() => this.#flush());
  }

  /** From here on others find it. */
  async close(): Promise<void> {
    await this.#guarded(async () => {
      await this.#flush();
      await this.#writer!.close();
      this.#writer = undefined;
    });
  }

  async abort(): Promise<void> {
    await this.#writer?.abort().catch(() => {});
  }

  async #flush(): Promise<void> {
    this.#writer ??= await this.#options.storage.writer(this.#path);
    await this.#writer.write(Buffer.from(this.#text));
    this.#text = "";
  }

  async #guarded(write: () => Promise<void>): Promise<void> {
    if (this.#hasFailed) return;
    try {
      await write();
    } catch (error) {
      this.#hasFailed = true;
      const message = `prepared prompts are not kept: ${(error as Error).message}`;
      this.#options.logger.log("warn", message);
    }
  }
}
