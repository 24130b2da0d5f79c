import { status } from "../../api/inspect.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { backoffMs } from "../../foundation/backoff.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Random } from "../../foundation/random.ts";
import type { Telemetry } from "../../foundation/telemetry.ts";
import { CancelRequest } from "../../run/coordinate/coordinator.ts";
import { manifestPath } from "../../run/directory/layout.ts";
import { readLines } from "../../run/directory/lines.ts";
import { readJson } from "../../run/directory/records.ts";
import { HashedFile, writeWhole } from "../../run/output/hashed-file.ts";
import type { Manifest } from "../../run/seal/manifest.ts";
import type { RunSummary } from "../../run/status/events.ts";
import type { Models } from "../models.ts";
import type { ServeOptions } from "../options.ts";
import type { ServedModel } from "../served-model.ts";
import { Batch, type BatchObject, type BatchRecord, batchPaths, recordsFolder } from "./batch.ts";
import { runBatch } from "./batch-run.ts";
import { checkInput } from "./check-input.ts";
import type { FileStore } from "./file-store.ts";
import { isId, newId } from "./file-store.ts";
import { Places } from "./places.ts";

export interface BatchesContext {
  options: Pick<ServeOptions, "batches" | "dataDirectory" | "limits" | "models">;
  storage: Storage;
  files: FileStore;
  models: Models;
  clock: Clock;
  random: Random;
  logger: Logger;
  environment: Readonly<Record<string, string | undefined>>;
  /** By which workers of batches identify themselves. */
  token: string;
  telemetry?: Telemetry | undefined;
}

/** A batch that a client asks for. */
export interface NewBatch
  extends Pick<BatchObject, "endpoint" | "input_file_id" | "metadata">,
    Pick<BatchRecord, "outputLifeSeconds" | "trace"> {}

/** Tries of a batch whose run cannot go on, before it fails. */
const maxTries = 5;
const wait = { baseMs: 1000, maxMs: 60_000 };
/** A cluster that is full, or started again: a batch waits for it until its window is over. */
const clusterAway: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "CLUSTER_FULL",
  "RAY_UNREACHABLE",
  "RAY_BRIDGE_DIED",
]);
/** How often a batch looks whether its model is served again. */
const modelPollMs = 2000;
/** How often a closing server looks whether its models work. */
const idlePollMs = 50;
/** Time for a worker to hear that it stops: then it sends no row again that it loses. */
const workerStopsMs = 250;
/** Time for the last answers to reach the workers, and their journals. */
const lastAnswersMs = 250;
/** How old the counts of a batch in progress may be. */
const countsAgeMs = 1000;

/** The batches of a server: each is a run. Its models answer the rows, or copies of them do. */
export class Batches {
  readonly #context: BatchesContext;
  readonly #batches = new Map<string, Batch>();
  readonly #places: Places;
  readonly #closing = new AbortController();
  readonly #carried = new Set<Promise<void>>();
  readonly #timers = new Map<string, () => void>();
  readonly #counts = new Map<string, { atMs: number; counts: Promise<Counts> }>();
  #rows: string | undefined;

  private constructor(context: BatchesContext) {
    this.#context = context;
    this.#places = new Places(context.options.limits.maxBatchesInProgress);
  }

  /** Reads the batches that are stored. Nothing is carried out before `begin`. */
  static async open(context: BatchesContext): Promise<Batches> {
    const batches = new Batches(context);
    const { storage } = context;
    for await (const { path } of storage.list(recordsFolder)) {
      const record = (await readJson<BatchRecord>(storage, path))!;
      batches.#batches.set(record.batch.id, new Batch(record, storage));
    }
    return batches;
  }

  /**
   * Continues what an earlier server began, and carries out new ones.
   *
   * @param rows the address to which rows are sent.
   */
  begin(rows: string): void {
    this.#rows = rows;
    const open = this.#sorted().filter(({ hasEnded }) => !hasEnded);
    // Those in progress had a place already.
    const begun = (batch: Batch) => Number(batch.object.in_progress_at === null);
    for (const batch of open.sort((one, other) => begun(one) - begun(other))) this.#start(batch);
  }

  all(): Promise<BatchObject[]> {
    return Promise.all(this.#sorted().map((batch) => this.#shown(batch)));
  }

  /** @throws SluiceError `BATCH_UNKNOWN`. */
  get(id: string): Promise<BatchObject> {
    return this.#shown(this.#named(id));
  }

  /**
   * Stores a batch and begins to check its input.
   *
   * @throws SluiceError `SERVER_STOPPING`.
   */
  async create(asked: NewBatch): Promise<BatchObject> {
    if (this.#closing.signal.aborted) throw new SluiceError("SERVER_STOPPING");
    const { clock, random, storage, options } = this.#context;
    const { outputLifeSeconds, trace, ...given } = asked;
    const id = newId("batch_", clock, random);
    const windowSeconds = Math.ceil(options.limits.batchWindowMs / 1000);
    const object = newBatch(id, given, Math.floor(clock.now() / 1000), windowSeconds);
    const batch = new Batch({ batch: object, outputLifeSeconds, trace }, storage);
    await batch.save();
    this.#batches.set(id, batch);
    const shown = { ...batch.object };
    // A fault of the storage is met again when the lines are checked: the batch is there already.
    await this.#keepInput(batch).catch((error: unknown) => this.#warn(batch, error));
    // Until the models are loaded it only waits, as those of an earlier server.
    if (this.#rows !== undefined) this.#start(batch);
    return shown;
  }

  /**
   * Stops a batch: rows in work end, the others are not sent, and what was answered is kept.
   *
   * @throws SluiceError `BATCH_UNKNOWN`, `BATCH_OVER`.
   */
  async cancel(id: string): Promise<BatchObject> {
    const batch = this.#named(id);
    const { status: state } = batch.object;
    if (state === "cancelling" || state === "cancelled") return await this.#shown(batch);
    if (batch.hasEnded || state === "finalizing" || batch.stopped.aborted) {
      throw new SluiceError("BATCH_OVER", `its status is ${state}`);
    }
    const stopping = batch.stop("cancelled", { status: "cancelling", cancelling_at: this.#now() });
    const shown = this.#shown(batch);
    await stopping;
    return await shown;
  }

  /** As `Batch.shut`. @throws SluiceError `BATCH_UNKNOWN`. */
  shutOf(id: string): AbortSignal {
    return this.#named(id).shut;
  }

  /** The manifest of a batch's run, as it is stored. @throws SluiceError `BATCH_UNKNOWN`. */
  async manifest(id: string): Promise<Uint8Array> {
    const { run } = batchPaths(this.#named(id).id);
    const path = `${run}/${manifestPath}`;
    if (await this.#context.storage.stat(path)) return await this.#context.storage.read(path);
    throw new SluiceError("BATCH_UNFINISHED", id);
  }

  /**
   * Stops the runs, so that the next server continues them. Rows that the models work on end, as
   * far as they can in `batchDrainTimeoutMs`.
   */
  async close(): Promise<void> {
    const { clock, options } = this.#context;
    const { drainTimeoutMs, batchDrainTimeoutMs } = options.limits;
    const graceMs = Math.min(batchDrainTimeoutMs, drainTimeoutMs);
    const hurry = new AbortController();
    const request = new CancelRequest(graceMs, hurry.signal);
    request.hurryMs = lastAnswersMs;
    this.#closing.abort(request);
    for (const cancel of this.#timers.values()) cancel();
    const stopped = Promise.all(this.#carried).then(() => hurry.abort());
    // Rows that only wait for a model would keep their workers for the whole time.
    while (!hurry.signal.aborted) {
      await Promise.race([stopped, sleep(clock, idlePollMs)]);
      if (!this.#hasCopied() && this.#context.models.all().every(isIdle)) hurry.abort();
    }
    await stopped;
  }

  /** Whether rows may be in work on a cluster, which the models here do not tell. */
  #hasCopied(): boolean {
    return this.#sorted().some(({ id, record }) => record.copied && this.#timers.has(id));
  }

  #sorted(): Batch[] {
    return [...this.#batches.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  #named(id: string): Batch {
    const batch = isId("batch_", id) ? this.#batches.get(id) : undefined;
    if (batch) return batch;
    throw new SluiceError("BATCH_UNKNOWN", id, { field: "id" });
  }

  #now(): number {
    return Math.floor(this.#context.clock.now() / 1000);
  }

  #start(batch: Batch): void {
    if (this.#timers.has(batch.id)) return;
    const { clock } = this.#context;
    batch.stopped.addEventListener("abort", () =>
      clock.schedule(workerStopsMs, () => batch.endWaits()),
    );
    const leftMs = batch.object.expires_at * 1000 - clock.now();
    this.#timers.set(
      batch.id,
      clock.schedule(leftMs, () => this.#expire(batch)),
    );
    const carried = this.#carry(batch).finally(() => {
      this.#timers.get(batch.id)?.();
      this.#timers.delete(batch.id);
      this.#counts.delete(batch.id);
      this.#carried.delete(carried);
    });
    this.#carried.add(carried);
  }

  #expire(batch: Batch): void {
    if (batch.hasEnded || batch.stopped.aborted || batch.object.status === "finalizing") return;
    void batch.stop("expired", {}).catch((error: unknown) => this.#warn(batch, error));
  }

  async #carry(batch: Batch): Promise<void> {
    const { clock, random } = this.#context;
    const { signal } = this.#closing;
    let faults = 0;
    let last: SluiceError | undefined;
    for (let tries = 1; !signal.aborted; tries++) {
      try {
        if (last === undefined || faults < maxTries) return await this.#carryOn(batch);
        return await this.#fail(batch, [problem(last.code.toLowerCase(), last.message)]);
      } catch (thrown) {
        if (signal.aborted) return;
        const error = asSluiceError(thrown);
        this.#warn(batch, error);
        // Another process may still be ending, or lead for good: its batch is not ours to fail.
        const isElsewhere = error.code === "COORDINATOR_LIVES" || error.code === "COORDINATOR_LOST";
        if (isElsewhere) tries = 0;
        faults = isElsewhere || clusterAway.has(error.code) ? 0 : faults + 1;
        last = error;
        if (faults === maxTries) continue;
        const woken = batch.stopped.aborted ? signal : AbortSignal.any([signal, batch.stopped]);
        await sleep(clock, backoffMs(tries + 1, random, wait), woken).catch(() => {});
      }
    }
  }

  /** The next steps of a batch, from whatever step an earlier server had reached. */
  async #carryOn(batch: Batch): Promise<void> {
    const { signal } = this.#closing;
    if (batch.object.model === null && !(await this.#check(batch))) return;
    // A sealed run has all its answers.
    const path = `${batchPaths(batch.id).run}/${manifestPath}`;
    if (!(await this.#context.storage.stat(path))) await this.#untilServed(batch);
    const leave = await this.#places.take(batch.stopped, signal);
    try {
      if (batch.object.in_progress_at === null) {
        const isValidating = batch.object.status === "validating";
        await batch.change({
          ...(isValidating && { status: "in_progress" }),
          in_progress_at: this.#now(),
        });
      }
      const summary = await this.#run(batch);
      await this.#finish(batch, summary);
    } finally {
      leave();
    }
  }

  /** @returns false if the batch has failed. */
  async #check(batch: Batch): Promise<boolean> {
    const { storage, models, options } = this.#context;
    const { input } = batchPaths(batch.id);
    const { endpoint, input_file_id: file } = batch.object;
    if (!(await this.#keepInput(batch))) {
      const message = `Cannot find file ${file.slice(0, 100)}.`;
      await this.#fail(batch, [{ ...problem("invalid_request", message), param: "file_id" }]);
      return false;
    }
    const { requests, model, problems } = await checkInput(readLines(storage, input), {
      endpoint,
      maxRequests: options.limits.maxBatchRequests,
      isServed: (name) => models.get(name) !== undefined,
    });
    if (problems.length > 0 || model === undefined) {
      await this.#fail(batch, problems);
      return false;
    }
    const served = options.models[model];
    if (served) {
      batch.record.generation = served.generation;
      const place = options.batches;
      if (place.backend === "ray") batch.record.copied = { model: served.model, place };
    }
    const counts = { total: requests, completed: 0, failed: 0 };
    await batch.change({ model, request_counts: counts });
    return true;
  }

  /** Gives the batch its own name of the input, so that the file can be deleted. */
  async #keepInput(batch: Batch): Promise<boolean> {
    const { storage, files } = this.#context;
    const { input } = batchPaths(batch.id);
    if (await storage.stat(input)) return true;
    try {
      await files.copy(batch.object.input_file_id, input);
      return true;
    } catch (error) {
      const isGone = ["FILE_UNKNOWN", "NOT_FOUND"].includes(asSluiceError(error).code);
      if (isGone) return false;
      throw error;
    }
  }

  /** Without workers that could answer it, the batch waits for them, until it is stopped. */
  async #untilServed(batch: Batch): Promise<void> {
    const { model } = batch.object;
    const isServed = () => {
      const served = this.#modelOf(batch);
      return served !== undefined && (batch.record.copied || served.workers.all.length > 0);
    };
    const waits = () => !batch.stopped.aborted && !isServed();
    if (!waits()) return;
    const lack = this.#modelOf(batch) ? `${model} has no workers` : model;
    this.#warn(batch, new SluiceError("MODEL_NOT_SERVED", `${lack}; the batch waits for it`));
    while (waits()) await sleep(this.#context.clock, modelPollMs, this.#closing.signal);
  }

  #modelOf({ object }: Batch) {
    return this.#context.models.get(object.model ?? "");
  }

  async #run(batch: Batch): Promise<RunSummary> {
    const { options, token, environment, clock, logger, telemetry, storage } = this.#context;
    const input = await storage.stat(batchPaths(batch.id).input);
    return await runBatch(batch, {
      dataDirectory: options.dataDirectory,
      baseUrl: `${this.#rows}/batches/${batch.id}/v1`,
      slots: this.#modelOf(batch)?.slots ?? 1,
      inputBytes: input?.bytes ?? 0,
      place: options.batches,
      ...{ token, environment, clock, logger, signal: this.#closing.signal },
      tracing: telemetry && { telemetry, caller: batch.record.trace },
    });
  }

  async #finish(batch: Batch, summary: RunSummary): Promise<void> {
    const { files, storage } = this.#context;
    const { record } = batch;
    record.fileIds ??= { output: files.newId(), error: files.newId() };
    const { total, answered, failed } = summary.rows;
    const paths = batchPaths(batch.id);
    const manifest = await readJson<Manifest>(storage, `${paths.run}/${manifestPath}`);
    const finalizing = record.stoppedBy
      ? {}
      : ({ status: "finalizing", finalizing_at: this.#now() } as const);
    await batch.change({
      ...finalizing,
      request_counts: { total, completed: answered, failed },
      usage: usageOf(manifest!.usage),
    });
    const lifeSeconds = record.outputLifeSeconds;
    const facts = (kind: string) => {
      return { filename: `${batch.id}_${kind}.jsonl`, purpose: "batch_output", lifeSeconds };
    };
    if (answered > 0) await files.adopt(record.fileIds.output, paths.output, facts("output"));
    if (failed > 0) {
      await writeErrorLines(storage, paths.failed, paths.errors);
      await files.adopt(record.fileIds.error, paths.errors, facts("error"));
    }
    const state = record.stoppedBy ?? "completed";
    await batch.change({
      status: state,
      [`${state}_at`]: this.#now(),
      output_file_id: answered > 0 ? record.fileIds.output : null,
      error_file_id: failed > 0 ? record.fileIds.error : null,
    });
    this.#context.logger.log("info", `${batch.id} is ${state}`, { answered, failed });
  }

  async #fail(batch: Batch, data: BatchProblems): Promise<void> {
    const errors = { object: "list", data } as const;
    await batch.change({ status: "failed", failed_at: this.#now(), errors });
    // The message may quote the line.
    const { code, line } = data[0] ?? {};
    this.#context.logger.log("info", `${batch.id} has failed`, { code, ...(line && { line }) });
  }

  async #shown(batch: Batch): Promise<BatchObject> {
    const { object } = batch;
    const isInProgress = object.in_progress_at !== null && object.usage === null;
    if (batch.hasEnded || !isInProgress) return { ...object };
    return { ...object, request_counts: await this.#countsOf(batch) };
  }

  async #countsOf({ id, object }: Batch): Promise<Counts> {
    const { clock, options } = this.#context;
    const known = this.#counts.get(id);
    if (known && clock.monotonic() - known.atMs < countsAgeMs) return await known.counts;
    const counts = status(`${options.dataDirectory}/${batchPaths(id).run}`).then(
      ({ run: { rows, openFailed } }) => ({
        total: object.request_counts.total,
        completed: rows.answered + rows.journaled,
        failed: rows.failed + openFailed,
      }),
      // There is no plan yet.
      () => object.request_counts,
    );
    this.#counts.set(id, { atMs: clock.monotonic(), counts });
    return await counts;
  }

  #warn(batch: Batch, thrown: unknown): void {
    const { code, message } = asSluiceError(thrown);
    this.#context.logger.log("warn", `${batch.id}: ${message}`, { code });
  }
}

type Counts = BatchObject["request_counts"];
type BatchProblems = NonNullable<BatchObject["errors"]>["data"];

const isIdle = ({ queue }: ServedModel) => queue.inFlight === 0;

function problem(code: string, message: string) {
  return { code, message, param: null, line: null };
}

function newBatch(
  id: string,
  { endpoint, input_file_id, metadata }: Omit<NewBatch, "outputLifeSeconds">,
  createdAt: number,
  windowSeconds: number,
): BatchObject {
  return {
    ...{ id, object: "batch", endpoint, model: null, errors: null, input_file_id },
    ...{ completion_window: "24h", status: "validating" },
    ...{ output_file_id: null, error_file_id: null },
    created_at: createdAt,
    in_progress_at: null,
    expires_at: createdAt + windowSeconds,
    ...{ finalizing_at: null, completed_at: null, failed_at: null, expired_at: null },
    ...{ cancelling_at: null, cancelled_at: null },
    request_counts: { total: 0, completed: 0, failed: 0 },
    ...{ usage: null, metadata },
  };
}

function usageOf({ promptTokens, cachedTokens, completionTokens }: Manifest["usage"]) {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + completionTokens,
  };
}

/** What OpenAI says of rows that were never sent, by the code that their run gave them. */
const unsent: Readonly<Record<string, { code: string; message: string }>> = {
  batch_expired: {
    code: "batch_expired",
    message: "This request could not be executed before the completion window expired.",
  },
  batch_canceled: {
    code: "batch_cancelled",
    message: "This request was not executed, because the batch was cancelled.",
  },
};

interface FailedLine {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: { error: JsonObject } };
  error: { code: string; message: string };
}

/**
 * A failed row in OpenAI's form. A row that the model refused has the response and no `error`; a
 * row that was never sent has an `error` and no response.
 *
 * @param line as the run wrote it.
 */
export function errorLine(line: string): string {
  const { error, response, ...own } = JSON.parse(line) as FailedLine;
  const given = unsent[error.code];
  return JSON.stringify({ ...own, response: given ? null : response, error: given ?? null });
}

/** Writes the lines of all failed rows in OpenAI's form. */
async function writeErrorLines(storage: Storage, from: string, to: string): Promise<void> {
  await writeWhole(await HashedFile.open(storage, to), async (file) => {
    for await (const line of readLines(storage, from)) await file.add(errorLine(line));
  });
}
