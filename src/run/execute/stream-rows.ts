import type { InputRow } from "../../data/row.ts";
import { readRows, scanSlices } from "../../data/slices.ts";
import type { Engine } from "../../engines/engine.ts";
import { describeEngine } from "../../engines/registry.ts";
import { asSluiceError, locatedError, SluiceError } from "../../foundation/errors.ts";
import { type ExactRow, toCodeValue } from "../../foundation/exact-json.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { seededRandom } from "../../foundation/random.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RunDependencies } from "../dependencies.ts";
import type { JobSpec } from "../job/schema.ts";
import { promptSetOf } from "../plan/job-prompts.ts";
import { readOptionsOf } from "../plan/plan.ts";
import { drawSample, findInput } from "../plan/scan-input.ts";
import { resultText, writtenNumbers } from "./row-work.ts";
import { sendUntilAccepted } from "./tries.ts";

export interface RowStreamOptions {
  engine: Engine;
  dependencies: Pick<RunDependencies, "clock" | "random" | "inputs">;
  seed: number;
  /** Most rows processed ahead of the reader; default: twice the engine's capacity. */
  ahead?(): number;
  signal: AbortSignal;
}

/** A result of a row, and its JSON text with every digit. */
export interface StreamedRow {
  value: ExactRow;
  text(): string;
}

/**
 * The results of a job in input order without a run: nothing is stored. Sends only requests whose
 * results the reader needs soon.
 *
 * @throws SluiceError the error of the first failed row, with its place.
 */
export async function* streamRows(
  job: JobSpec,
  options: RowStreamOptions,
): AsyncGenerator<StreamedRow> {
  const stream = new RowStream(job, options);
  try {
    yield* stream.results();
  } finally {
    stream.stop();
  }
}

/** The rows that a job takes from its input, in arrays of limited size. */
export async function* inputRows(
  job: JobSpec,
  { inputs }: Pick<RunDependencies, "inputs">,
  seed: number,
): AsyncGenerator<InputRow[]> {
  const { files, openFile } = await findInput(job, inputs);
  const { limit, sample } = job;
  const reading = readOptionsOf(job);
  const cut = {
    ...reading,
    rowsPerTask: limits.maxReadAheadRows,
    limit,
    openFile,
  };
  const chosen =
    sample === undefined ? undefined : await chosenRows(scanSlices(files, cut), sample, seed);
  for await (const { slices, firstRow } of scanSlices(files, cut)) {
    for await (const rows of readRows(slices, firstRow, openFile, { ...reading, parse: true })) {
      yield chosen === undefined ? rows : rows.filter(({ index }) => chosen.has(index));
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

/** Rows of each common request. */
async function* inGroups(
  batches: AsyncIterable<InputRow[]>,
  size: number,
): AsyncGenerator<InputRow[][]> {
  let group: InputRow[] = [];
  for await (const rows of batches) {
    const whole: InputRow[][] = [];
    for (const row of rows) {
      const [first = row] = group;
      if (Math.floor(first.index / size) !== Math.floor(row.index / size)) {
        whole.push(group);
        group = [];
      }
      group.push(row);
      if (row.index % size !== size - 1) continue;
      whole.push(group);
      group = [];
    }
    if (whole.length > 0) yield whole;
  }
  if (group.length > 0) yield [group];
}

/** Rows of a common request, usually one row, and later their results. */
interface RowGroup {
  settled?: { rows: readonly StreamedRow[] } | { error: SluiceError };
}

class RowStream {
  readonly #options: RowStreamOptions;
  readonly #job: JobSpec;
  readonly #promptSet: PromptSet;
  readonly #rowsTogether: number;
  readonly #stopping = new AbortController();
  readonly #signal: AbortSignal;
  /** In input order. */
  readonly #asked: RowGroup[] = [];
  #inFlight = 0;
  /** Rows in flight when an engine ended: each is sent alone. */
  #suspects = 0;
  #lastAlone: Promise<unknown> = Promise.resolve();
  #returned = Promise.withResolvers<void>();
  #wake: () => void = () => {};

  constructor(job: JobSpec, options: RowStreamOptions) {
    this.#options = options;
    this.#job = job;
    this.#promptSet = promptSetOf(job, options.seed);
    this.#rowsTogether = describeEngine(job.model).rowsTogether?.(job.model) ?? 1;
    this.#signal = AbortSignal.any([options.signal, this.#stopping.signal]);
  }

  async *results(): AsyncGenerator<StreamedRow> {
    const { engine, dependencies, seed } = this.#options;
    const input = inputRows(this.#job, dependencies, seed);
    const rows = inGroups(input, this.#rowsTogether)[Symbol.asyncIterator]();
    let read: InputRow[][] = [];
    let at = 0;
    try {
      for (let hasEnded = false; ; ) {
        const isLow = this.#isLow;
        while (isLow && !hasEnded && this.#hasRoom()) {
          // No wait between rows at hand: they form one batch.
          if (at < read.length) {
            this.#take(read[at++]!);
            continue;
          }
          const { done, value } = await rows.next();
          if (done) hasEnded = true;
          else [read, at] = [value, 0];
        }
        const first = this.#asked[0];
        if (first === undefined) return;
        if (first.settled === undefined) {
          // No request is sent before a result comes.
          if (hasEnded || this.#inFlight < engine.capacity) engine.flush?.();
          await this.#something();
          continue;
        }
        this.#asked.shift();
        if ("error" in first.settled) {
          // Rows that end by it have its reason as their error.
          this.#signal.throwIfAborted();
          throw first.settled.error;
        }
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
    if (this.#suspects > 0) return false;
    return this.#inFlight < this.#options.engine.capacity && this.#asked.length < this.#mostAsked;
  }

  get #mostAsked(): number {
    const { engine, ahead } = this.#options;
    const wanted = ahead?.();
    if (wanted === undefined) return 2 * engine.capacity;
    return Math.max(1, Math.ceil(wanted / this.#rowsTogether));
  }

  /** The reader waits, or soon will. Rows sent one by one would make small batches. */
  get #isLow(): boolean {
    return this.#asked[0]?.settled === undefined || this.#asked.length <= this.#mostAsked / 2;
  }

  /** Resolves when a row has come back, or everything was given up. */
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

  #take(rows: readonly InputRow[]): void {
    const asked: RowGroup = {};
    this.#asked.push(asked);
    this.#inFlight++;
    this.#rowsOf(rows)
      .then(
        (rows) => {
          asked.settled = { rows };
        },
        (thrown: unknown) => {
          asked.settled = { error: locatedError(asSluiceError(thrown), rows[0]!) };
        },
      )
      .finally(() => {
        this.#inFlight--;
        this.#noteReturn();
        this.#wake();
      });
  }

  async #rowsOf(rows: readonly InputRow[]): Promise<readonly StreamedRow[]> {
    for (const { error } of rows) if (error) throw error;
    const [row] = rows as readonly [InputRow];
    const requests = rows.map(
      (each) => this.#promptSet.requests(each.value!, each.index, each.dataset, each.raw)[0]!,
    );
    const [only] = requests;
    const request =
      rows.length === 1 ? only : { ...only!, rows: requests.map((each) => each.row!) };
    const numbers = rows.length === 1 ? writtenNumbers(row, requests) : undefined;
    const response = await this.#sendUntilAccepted(request!, rows);
    return (response.rows ?? []).map((value) => ({
      value: toCodeValue(value) as ExactRow,
      text: () => resultText(value, numbers),
    }));
  }

  #sendUntilAccepted(
    request: InferenceRequest,
    rows: readonly InputRow[],
  ): Promise<InferenceResponse> {
    const { clock, random } = this.#options.dependencies;
    let isSuspect = false;
    return sendUntilAccepted((it) => (isSuspect ? this.#sendAlone(it) : this.#send(it)), request, {
      ...{ promptSet: this.#promptSet, clock, random, signal: this.#signal },
      maxTries: this.#job.retries.maxAttempts,
      accept(response) {
        for (const [at, error] of response.failures ?? []) {
          throw locatedError(asSluiceError(error), rows[at]!);
        }
        return response;
      },
      mayPass({ scope }) {
        isSuspect ||= scope === "engine";
        return true;
      },
    });
  }

  #send(request: InferenceRequest): Promise<InferenceResponse> {
    return this.#options.engine.infer(request, this.#signal);
  }

  /** Sends a suspect alone: see ARCHITECTURE, "Four searches for what kills an engine". */
  async #sendAlone(request: InferenceRequest): Promise<InferenceResponse> {
    this.#suspects++;
    this.#noteReturn();
    const earlier = this.#lastAlone;
    const asked = Promise.withResolvers<void>();
    this.#lastAlone = asked.promise;
    try {
      await earlier;
      while (this.#inFlight > this.#suspects) {
        this.#options.engine.flush?.();
        await this.#returned.promise;
      }
      this.#signal.throwIfAborted();
      const response = this.#send(request);
      this.#options.engine.flush?.();
      return await response;
    } finally {
      this.#suspects--;
      asked.resolve();
    }
  }

  #noteReturn(): void {
    this.#returned.resolve();
    this.#returned = Promise.withResolvers<void>();
  }
}
