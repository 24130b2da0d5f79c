import type { InputRow } from "../../data/row.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { Engine } from "../../engines/engine.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import type {
  AnswerStructure,
  GenerationParameters,
  InferenceRequest,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { ArrangedAttempt } from "../attempt/row-arrangement.ts";
import type { JobSpec } from "../job/schema.ts";
import type { Task } from "../plan.ts";
import {
  PreparedReader,
  type PreparedRequest,
  PreparedWriter,
  preparedState,
} from "./prepared-file.ts";

/** An engine's own. */
interface Tokenizer {
  tokenize: NonNullable<Engine["tokenize"]>;
  /** Of all that tokens follow from. */
  digest: string;
}

interface PreparedOptions {
  /** Rooted at the folder of prepared prompts. */
  storage: Storage;
  job: JobSpec;
  promptSet: PromptSet;
  /** What every request of the job has. */
  parameters: GenerationParameters;
  /** Makes tokens of prompts; absent where the engine has no tokenizer. */
  tokenize?: Engine["tokenize"] | undefined;
  logger: Logger;
}

/**
 * Rendered prompts, and their tokens where the engine makes them, that are kept in a folder for
 * other runs: a file for each shard, named by the digest of the rows' bytes, the prompts, the
 * tokenizer and `sequenceLen`. A file appears whole or not at all, and two processes that write one
 * write the same; one that is damaged is made again. Memory holds a line of it.
 */
export class PreparedPrompts {
  /** The prompts of the job; of a row that is at hand here it knows them already. */
  readonly promptSet: PromptSet;
  readonly #options: PreparedOptions;
  readonly #requests = new WeakMap<JsonObject, readonly PreparedRequest[]>();
  /** Structures by the names of their prompts, which the first row that is rendered tells. */
  readonly #structures = new Map<string, AnswerStructure>();

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
    const { storage, job, logger } = this.#options;
    const tokenizer = await this.#tokenizer().catch((error: Error) => error);
    if (tokenizer instanceof Error) {
      this.#warnNotKept(tokenizer);
      return yield* notKept(batches, attempt);
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
          const requests = await file.requestsOf(index - task.firstRow).catch(() => null);
          if (!value || !requests) continue;
          this.#requests.set(value, requests);
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
    const file = new PreparedWriter(storage, path, (error) => this.#warnNotKept(error));
    let seen = 0;
    try {
      for await (const rows of batches) {
        const rendered = rows.map((row) => this.#render(row));
        if (file.isOpen && tokenizer) {
          const requests = rendered.flatMap((ofRow) => ofRow ?? []);
          await addTokens(requests, tokenizer).catch((error: Error) => file.fail(error));
        }
        for (const [at, { index, value }] of rows.entries()) {
          const requests = rendered[at]!;
          if (value && requests) this.#requests.set(value, requests);
          await file.add({ row: index - task.firstRow, requests });
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
      const requests = this.#requestsOf(value, index, dataset);
      return requests.every(isPlain) ? requests.map(preparedRequest) : null;
    } catch {
      // It fails when it is asked, and is told why then.
      return null;
    }
  }

  #warnNotKept({ message }: Error): void {
    this.#options.logger.log("warn", `prepared prompts are not kept: ${message}`);
  }

  /** Undefined where the engine has none. */
  async #tokenizer(): Promise<Tokenizer | undefined> {
    const { tokenize } = this.#options;
    return tokenize && { tokenize, digest: (await tokenize([])).tokenizer };
  }

  #take(row: JsonObject, index: number, dataset: string | undefined): InferenceRequest[] {
    const { parameters } = this.#options;
    const prepared = this.#requests.get(row);
    const isKnown = prepared?.every(
      ({ isStructured, promptName }) => !isStructured || this.#structures.has(promptName),
    );
    if (!prepared || !isKnown) return this.#requestsOf(row, index, dataset);
    return prepared.map(({ isStructured, ...words }) => {
      const structure = isStructured && this.#structures.get(words.promptName);
      return { ...words, index, parameters, ...(structure && { structure }) };
    });
  }

  #requestsOf(row: JsonObject, index: number, dataset: string | undefined): InferenceRequest[] {
    const requests = this.#options.promptSet.requests(row, index, dataset);
    for (const { promptName, structure } of requests) {
      if (structure) this.#structures.set(promptName, structure);
    }
    return requests;
  }
}

async function* notKept(batches: AsyncIterable<InputRow[]>, attempt: ArrangedAttempt) {
  for await (const rows of batches) {
    attempt.notePrepared({ hits: 0, misses: rows.length });
    yield rows;
  }
}

/** True for a request that differs from others of its prompt by its words alone. */
function isPlain({ after, element, embed, slottedLine, structure }: InferenceRequest): boolean {
  const more = [after, element, embed, slottedLine, structure?.copies];
  return more.every((it) => it === undefined);
}

function preparedRequest(request: InferenceRequest): PreparedRequest {
  const { index: _, parameters: _shared, structure, ...words } = request;
  return structure === undefined ? words : { ...words, isStructured: true };
}

/** @throws SluiceError `ENGINE_DIED`, also where it came back with another model. */
async function addTokens(
  requests: readonly PreparedRequest[],
  { tokenize, digest }: Tokenizer,
): Promise<void> {
  for (const group of grouped(requests)) {
    const words = group.map(({ messages, prompt = "" }) => (messages ? { messages } : { prompt }));
    const { tokenizer, prompts } = await tokenize(words);
    if (tokenizer !== digest) throw new SluiceError("ENGINE_DIED", "its tokenizer has changed");
    for (const [at, tokens] of prompts.entries()) if (tokens) group[at]!.tokens = tokens;
  }
}

/** Requests in groups of bounded size. */
function grouped(requests: readonly PreparedRequest[]): PreparedRequest[][] {
  const groups: PreparedRequest[][] = [];
  let chars = Number.POSITIVE_INFINITY;
  for (const request of requests) {
    const own = charsOf(request);
    if (chars + own > limits.maxTokenizedChars) {
      groups.push([]);
      chars = 0;
    }
    groups.at(-1)!.push(request);
    chars += own;
  }
  return groups;
}

function charsOf({ messages = [], prompt = "" }: PreparedRequest): number {
  return messages.reduce((sum, { content }) => sum + content.length, prompt.length);
}

/** Where the prompts of a shard are kept. */
function preparedPath({ slices, only }: Task, job: JobSpec, tokenizer: string | undefined): string {
  const { dataset, prompt, prompts, truncateFeatures, sequenceLen, model } = job;
  const entries = dataset?.map(({ path: _, data_files: __, ...entry }) => entry);
  const digest = digestOf({
    format: 2,
    rows: slices.map(({ sha256, format, dataset: name }) => [sha256, format, name ?? null]),
    only: only ?? null,
    prompts: JSON.parse(JSON.stringify({ entries, prompt, prompts, truncateFeatures })) as Json,
    tokenizer: [model.engine, tokenizer ?? model.name],
    sequenceLen: sequenceLen ?? null,
  });
  return `${digest.slice(0, 2)}/${digest}.jsonl`;
}
