import type { InputRow } from "../data/row.ts";
import { readRows, scanSlices } from "../data/slices.ts";
import type { Engine } from "../engines/engine.ts";
import { type Clock, sleep } from "../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import { type Random, seededRandom } from "../foundation/random.ts";
import { backoffMs } from "../foundation/retry.ts";
import type { PromptSet } from "../prompt/prompt-set.ts";
import { promptSetOf } from "./askable.ts";
import { drawSample, findInput } from "./create-plan.ts";
import type { RunDependencies } from "./dependencies.ts";
import type { JobSpec } from "./job/schema.ts";
import { readOptionsFor } from "./plan.ts";

export interface StreamOptions {
  engine: Engine;
  dependencies: Pick<RunDependencies, "clock" | "random" | "inputs">;
  seed: number;
  /** Rows that are asked ahead of the reader, at most; default: what the engine holds, twice. */
  ahead?(): number;
  signal: AbortSignal;
}

/**
 * What the rows of a job become, in input order, with no run: nothing is kept on storage. No more
 * is asked than the reader needs soon.
 *
 * @throws SluiceError the failure of the first row that fails, with its place.
 */
export async function* streamRows(
  job: JobSpec,
  options: StreamOptions,
): AsyncGenerator<JsonObject> {
  const stream = new RowStream(job, options);
  try {
    yield* stream.results();
  } finally {
    stream.stop();
  }
}

/** The rows of a job's input, as far as it takes them. */
export async function* inputRows(
  job: JobSpec,
  { inputs }: Pick<RunDependencies, "inputs">,
  seed: number,
): AsyncGenerator<InputRow> {
  const { files } = await findInput(job, inputs);
  const { limit, sample } = job;
  const openFile = inputs.open;
  const reading = readOptionsFor(job);
  const cut = {
    ...reading,
    rowsPerTask: limits.maxReadAheadRows,
    ...(limit && { limit }),
    openFile,
  };
  const chosen =
    sample === undefined ? undefined : await chosenRows(scanSlices(files, cut), sample, seed);
  for await (const { slices, firstRow } of scanSlices(files, cut)) {
    for await (const rows of readRows(slices, firstRow, openFile, { ...reading, parse: true })) {
      for (const row of rows) if (chosen === undefined || chosen.has(row.index)) yield row;
    }
  }
}

async function chosenRows(
  scan: AsyncIterable<{ rows: number }>,
  sample: number,
  seed: number,
): Promise<ReadonlySet<number>> {
  let count = 0;
  for await (const { rows } of scan) count += rows;
  return new Set(drawSample(count, sample, seededRandom(seed)));
}

/** A row that was asked: what it became once it did. */
interface AskedRow {
  settled?: { rows: readonly JsonObject[] } | { error: SluiceError };
}

class RowStream {
  readonly #options: StreamOptions;
  readonly #job: JobSpec;
  readonly #promptSet: PromptSet;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #stopping = new AbortController();
  readonly #signal: AbortSignal;
  /** In input order. */
  readonly #asked: AskedRow[] = [];
  #inFlight = 0;
  #wake: () => void = () => {};

  constructor(job: JobSpec, options: StreamOptions) {
    this.#options = options;
    this.#job = job;
    this.#promptSet = promptSetOf(job, options.seed);
    this.#clock = options.dependencies.clock;
    this.#random = options.dependencies.random;
    this.#signal = AbortSignal.any([options.signal, this.#stopping.signal]);
  }

  async *results(): AsyncGenerator<JsonObject> {
    const { engine, dependencies, seed } = this.#options;
    const rows = inputRows(this.#job, dependencies, seed)[Symbol.asyncIterator]();
    try {
      for (let hasEnded = false; ; ) {
        while (!hasEnded && this.#hasRoom()) {
          const { done, value } = await rows.next();
          if (done) hasEnded = true;
          else this.#take(value);
        }
        const first = this.#asked[0];
        if (first === undefined) return;
        if (first.settled === undefined) {
          // Nothing more is asked before something comes.
          if (hasEnded || this.#inFlight < engine.capacity) engine.flush?.();
          await this.#something();
          continue;
        }
        this.#asked.shift();
        if ("error" in first.settled) throw first.settled.error;
        yield* first.settled.rows;
      }
    } finally {
      await rows.return?.(undefined);
    }
  }

  stop(): void {
    this.#stopping.abort(new SluiceError("RUN_CANCELED"));
  }

  #hasRoom(): boolean {
    const { capacity } = this.#options.engine;
    const most = Math.max(1, this.#options.ahead?.() ?? 2 * capacity);
    return this.#inFlight < capacity && this.#asked.length < most;
  }

  /** Resolves when a row that was asked has come back, or all was given up. */
  #something(): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(this.#signal.reason);
      if (this.#signal.aborted) return abort();
      this.#signal.addEventListener("abort", abort, { once: true });
      this.#wake = () => {
        this.#signal.removeEventListener("abort", abort);
        resolve();
      };
    });
  }

  #take(row: InputRow): void {
    const asked: AskedRow = {};
    this.#asked.push(asked);
    this.#inFlight++;
    this.#rowsOf(row)
      .then(
        (rows) => {
          asked.settled = { rows };
        },
        (thrown: unknown) => {
          asked.settled = { error: located(asSluiceError(thrown), row) };
        },
      )
      .finally(() => {
        this.#inFlight--;
        this.#wake();
      });
  }

  async #rowsOf(row: InputRow): Promise<readonly JsonObject[]> {
    if (row.error) throw row.error;
    const [request] = this.#promptSet.requests(row.value!, row.index, row.dataset);
    for (let attempt = 1; ; attempt++) {
      try {
        const response = await this.#options.engine.infer(request!, this.#signal);
        return response.rows ?? [];
      } catch (thrown) {
        this.#signal.throwIfAborted();
        const { retryable, retryAfterMs } = asSluiceError(thrown);
        if (!retryable || attempt >= this.#job.retries.maxAttempts) throw thrown;
        const delayMs = backoffMs(attempt, this.#random, undefined, retryAfterMs);
        await sleep(this.#clock, delayMs, this.#signal);
      }
    }
  }
}

function located(error: SluiceError, { file, line }: InputRow): SluiceError {
  if (error.place.file !== undefined) return error;
  const placed = new SluiceError(error.code, "", { file, line, cause: error });
  placed.message = `${error.message} (${file}:${line})`;
  return placed;
}
