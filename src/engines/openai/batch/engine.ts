import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import { sha256Hex } from "../../../foundation/hashing.ts";
import { sortableId } from "../../../foundation/ids.ts";
import type { InferenceRequest, InferenceResponse } from "../../../foundation/inference.ts";
import type { JsonObject } from "../../../foundation/json.ts";
import { AbortWatch } from "../../abort-watch.ts";
import type { BatchRecords, BatchState } from "../../batch-records.ts";
import type { Engine, EngineContext } from "../../engine.ts";
import { endpointsOf } from "../api-key.ts";
import { checkContext, checkWords } from "../context-length.ts";
import { imageAddress } from "../image.ts";
import type { OpenaiModelOptions } from "../options.ts";
import { bodyFields, RequestWriter } from "../request-body.ts";
import { withStructureHint } from "../structured-output.ts";
import { isOpenaiItself } from "../unsupported.ts";
import { PendingRequest, tooLargeForFile } from "./pending-request.ts";
import { Provider } from "./provider.ts";
import { SentBatch, type Unsent } from "./sent-batch.ts";
import { type ProviderBatchOptions, providerBatchOptions } from "./settings.ts";

/** Batches without any request sent, one after the other, until their reason ends the run. */
const maxUnsentBatches = 3;

/** Requests of a task that come one after the other, until their batch is sent. */
interface Collected {
  task: number;
  url: string;
  requests: Map<string, PendingRequest>;
  bytes: number;
  cancelTimer: () => void;
}

/** Requests that are to be one batch. */
interface ToSend {
  task: number;
  url: string;
  requests: readonly PendingRequest[];
  /** How often a batch of them was created in vain. */
  unsent: number;
  isUploading?: boolean;
}

/**
 * Opens an engine that sends requests through the batch API of a provider: the requests of a task
 * as one file. Its batches are kept with the run, so that an engine that comes after it finds them.
 *
 * @throws SluiceError `UNSUPPORTED` outside of runs, else as `openOpenai`.
 */
export function openBatchEngine(options: OpenaiModelOptions, context: EngineContext): Engine {
  const { batchRecords } = context;
  if (batchRecords) return new BatchEngine(options, context, batchRecords);
  const detail = "via: batch is for the rows of runs, which can wait for hours";
  throw new SluiceError("UNSUPPORTED", detail, {
    field: "model.via",
    hint: "leave via out here: then each request is sent at once",
  });
}

class BatchEngine implements Engine {
  readonly name = "openai";
  readonly keepsRequests = true;
  readonly #options: OpenaiModelOptions;
  readonly #settings: ProviderBatchOptions;
  readonly #context: EngineContext;
  readonly #records: BatchRecords;
  readonly #provider: Provider;
  readonly #writer: RequestWriter;
  readonly #watch = new AbortWatch();
  readonly #stop = new AbortController();
  readonly #collected = new Map<string, Collected>();
  /** Batches in the order in which they are to be sent, those being uploaded included. */
  #queue: ToSend[] = [];
  /** The batches of each task that are known, oldest first. */
  readonly #sent = new Map<number, SentBatch[]>();
  readonly #followed = new Set<SentBatch>();
  /** Requests of the largest batch that the provider may have room for. */
  #maxRequests: number;
  /** How often in a row the provider had no room, and when the next batch may be sent. */
  #refusals = 0;
  #cancelPause: (() => void) | undefined;
  #closedBy: SluiceError | undefined;

  constructor(options: OpenaiModelOptions, context: EngineContext, records: BatchRecords) {
    const { name, structuredOutput, extraBody } = options;
    this.#options = options;
    this.#settings = providerBatchOptions(options);
    this.#context = context;
    this.#records = records;
    this.#provider = new Provider(options, context);
    this.#maxRequests = this.#settings.maxRequests;
    const [server] = endpointsOf(options);
    const isItself = isOpenaiItself(server!.baseUrl);
    const fields = extraBody as JsonObject | undefined;
    this.#writer = new RequestWriter(name, isItself, structuredOutput, fields);
  }

  /** Whole tasks: how many there are at once is in the engine's description. */
  get capacity(): number {
    return this.#settings.maxBatches * this.#settings.maxRequests;
  }

  get batches(): readonly BatchState[] {
    const waiting = [...this.#collected.values(), ...this.#queue].map((each) => ({
      task: each.task,
      state: "isUploading" in each && each.isUploading ? "uploading" : "waiting",
      requests: "size" in each.requests ? each.requests.size : each.requests.length,
      done: 0,
    }));
    const wanted = [...this.#followed].filter(({ isWanted }) => isWanted);
    return [...waiting, ...wanted.map(({ state }) => state)];
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    checkWords(request, this.#options);
    const { clock } = this.#context;
    const startMs = clock.monotonic();
    const [pending, task] = await Promise.all([
      PendingRequest.of({ request, signal, watch: this.#watch, body: () => this.#body(request) }),
      this.#records.taskOf(request.origin?.index ?? 0),
    ]);
    this.#collect(pending, task);
    try {
      const { answers, usage } = await pending.answer;
      checkContext(usage, this.#options);
      return { answers, usage, seconds: (clock.monotonic() - startMs) / 1000 };
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      throw withStructureHint(error, request, this.#options.structuredOutput);
    }
  }

  async close(): Promise<void> {
    if (this.#closedBy) return;
    const error = new SluiceError("ENGINE_DIED", "it was closed");
    this.#closedBy = error;
    this.#cancelPause?.();
    this.#stop.abort(error);
    for (const { requests, cancelTimer } of this.#collected.values()) {
      cancelTimer();
      failAll([...requests.values()], error);
    }
    for (const { requests } of this.#queue) failAll(requests, error);
    for (const sent of this.#followed) sent.reject(error);
    this.#collected.clear();
    this.#queue = [];
    await this.#provider.close(error);
  }

  #body(request: InferenceRequest): string | Promise<string> {
    const { embed, file, messages, prompt = "" } = request;
    if (embed) {
      const fields = bodyFields(this.#options.name, this.#options.extraBody as JsonObject);
      return `{${fields},"input":${JSON.stringify(prompt)}}`;
    }
    if (file === undefined) return this.#writer.write(request);
    if (messages !== undefined) {
      return imageAddress(file).then((image) => this.#writer.write(request, image));
    }
    throw new SluiceError("REQUEST_REFUSED", "a provider's batches have no transcripts", {
      hint: "leave model.via out",
    });
  }

  #collect(pending: PendingRequest, task: number): void {
    if (this.#closedBy) return pending.fail(this.#closedBy);
    if (pending.isSettled) return;
    const { maxFileBytes, maxBatchDelayMs } = this.#settings;
    const { id, url, bytes } = pending;
    if (bytes > maxFileBytes) return pending.fail(tooLargeForFile(bytes, maxFileBytes));
    const key = `${task} ${url}`;
    const standing = this.#collected.get(key);
    const isFull = standing && standing.bytes + bytes > maxFileBytes;
    if (isFull || standing?.requests.has(id)) this.#cut(key, standing);
    const into = this.#collected.get(key) ?? {
      ...{ task, url, requests: new Map<string, PendingRequest>(), bytes: 0 },
      cancelTimer: () => {},
    };
    this.#collected.set(key, into);
    into.cancelTimer();
    into.requests.set(id, pending);
    into.bytes += bytes;
    pending.onGone = () => {
      if (into.requests.delete(id)) into.bytes -= bytes;
    };
    if (into.requests.size >= this.#maxRequests) return this.#cut(key, into);
    const { clock } = this.#context;
    into.cancelTimer = clock.schedule(maxBatchDelayMs, () => this.#cut(key, into));
  }

  /** Sends what was collected: first to batches that hold it already, then as a new batch. */
  #cut(key: string, { task, url, requests, cancelTimer }: Collected): void {
    cancelTimer();
    this.#collected.delete(key);
    const all = [...requests.values()];
    for (const request of all) request.onGone = () => {};
    this.#attach(task, all).then(
      (rest) => this.#enqueue({ task, url, requests: rest, unsent: 0 }),
      (error: unknown) => failAll(all, error),
    );
  }

  /** Finds the requests that a batch holds already; returns the others. */
  async #attach(task: number, requests: readonly PendingRequest[]): Promise<PendingRequest[]> {
    const known = this.#sent.get(task) ?? [];
    const last = known.at(-1)?.record.number ?? 0;
    for (const record of await this.#records.list(task, last)) this.#keep(record, true);
    const batches = (this.#sent.get(task) ?? []).toReversed();
    // The newest first: an older one has what failed there.
    const rest = requests.filter(
      (request) => !request.isSettled && !batches.some((batch) => batch.attach(request)),
    );
    for (const batch of batches) if (batch.isWanted) void this.#follow(batch, 0);
    return rest;
  }

  #keep(record: SentBatch["record"], isFound: boolean): SentBatch {
    const batches = this.#sent.get(record.task) ?? [];
    const same = batches.find((each) => each.record.number === record.number);
    if (same) return same;
    const batch = new SentBatch(record, isFound, {
      ...{ provider: this.#provider, records: this.#records, settings: this.#settings },
      ...{ clock: this.#context.clock, signal: this.#stop.signal },
    });
    batches.push(batch);
    this.#sent.set(record.task, batches);
    return batch;
  }

  #enqueue(toSend: ToSend): void {
    if (this.#closedBy) return failAll(toSend.requests, this.#closedBy);
    if (toSend.requests.length > 0) this.#queue.push(toSend);
    this.#sendNext();
  }

  /** Sends the next batches, as far as there may be room for them. */
  #sendNext(): void {
    if (this.#cancelPause || this.#closedBy) return;
    for (const next of this.#queue) {
      const uploading = this.#queue.filter(({ isUploading }) => isUploading).length;
      if (this.#followed.size + uploading >= this.#settings.maxBatches) return;
      if (!next.isUploading) void this.#send(next);
    }
  }

  async #send(next: ToSend): Promise<void> {
    next.isUploading = true;
    this.#splitOff(next);
    const { task, url, requests, unsent } = next;
    const leave = () => {
      this.#queue = this.#queue.filter((each) => each !== next);
    };
    try {
      if (requests.length === 0) return;
      const batch = await this.#created(next);
      const others = requests.filter((each) => !each.isSettled && !batch.attach(each));
      if (batch.isWanted) void this.#follow(batch, unsent);
      leave();
      this.#enqueue({ task, url, requests: others, unsent });
    } catch (error) {
      failAll(requests, error);
    } finally {
      leave();
      this.#sendNext();
    }
  }

  /** What is more than one batch may have now is queued behind it. */
  #splitOff(next: ToSend): void {
    const wanted = next.requests.filter(({ isSettled }) => !isSettled);
    next.requests = wanted.slice(0, this.#maxRequests);
    const requests = wanted.slice(this.#maxRequests);
    if (requests.length === 0) return;
    const { task, url, unsent } = next;
    this.#queue.splice(this.#queue.indexOf(next) + 1, 0, { task, url, unsent, requests });
  }

  /** Uploads the file of a batch, and keeps the batch with the run, before it is created. */
  async #created({ task, url, requests }: ToSend): Promise<SentBatch> {
    const { clock, random } = this.#context;
    const ids = requests.map(({ id }) => id);
    const key = `${sha256Hex(ids.join(" ")).slice(0, 16)}-${sortableId(clock, random)}`;
    const bytes = requests.reduce((sum, request) => sum + request.bytes, 0);
    const name = `sluice-${this.#records.run}-${task}-${key}.jsonl`;
    const file = await this.#provider.upload(name, bytes, () => linesOf(requests));
    const number = (this.#sent.get(task)?.at(-1)?.record.number ?? 0) + 1;
    const record = await this.#records.create({
      ...{ key, task, number, url, requests: ids },
      ...{ inputFile: file.id, inputCreatedAt: file.createdAt },
    });
    const isOurs = record.key === key;
    if (!isOurs) await this.#provider.delete(file.id);
    return this.#keep(record, !isOurs);
  }

  async #follow(batch: SentBatch, unsent: number): Promise<void> {
    if (this.#followed.has(batch)) return;
    this.#followed.add(batch);
    try {
      while (batch.isWanted) this.#afterUnsent(batch, await batch.follow(), unsent);
    } catch (error) {
      batch.reject(asSluiceError(error));
    } finally {
      this.#followed.delete(batch);
      this.#sendNext();
    }
  }

  /** Puts requests that a batch did not send at the head of the queue. */
  #afterUnsent({ record, size }: SentBatch, { requests, limit }: Unsent, unsent: number): void {
    if (limit !== undefined) this.#pause(limit);
    else this.#refusals = 0;
    if (requests.length === 0) {
      // The provider may have room for more again.
      this.#maxRequests = Math.min(this.#settings.maxRequests, this.#maxRequests * 2);
      return;
    }
    const { task, url } = record;
    const isVain = limit === undefined && requests.length === size;
    if (isVain && unsent + 1 >= maxUnsentBatches) {
      const detail = `${this.#provider.address} failed ${maxUnsentBatches} batches in a row`;
      return failAll(requests, new SluiceError("ENDPOINT_UNUSABLE", detail));
    }
    this.#queue.unshift({ task, url, requests, unsent: isVain ? unsent + 1 : 0 });
  }

  /** The provider had no room: the next batch comes later, and is smaller if nothing else runs. */
  #pause(limit: string): void {
    const { clock, logger } = this.#context;
    const { pollMs, maxPollMs } = this.#settings;
    if (this.#refusals++ === 0) {
      logger.log("warn", `${this.#provider.address} takes no more batches for now: ${limit}`);
    }
    if (this.#followed.size <= 1) this.#maxRequests = Math.max(1, Math.ceil(this.#maxRequests / 2));
    const waitMs = Math.min(maxPollMs, pollMs * 2 ** Math.min(this.#refusals - 1, 30));
    this.#cancelPause ??= clock.schedule(waitMs, () => {
      this.#cancelPause = undefined;
      this.#sendNext();
    });
  }
}

async function* linesOf(requests: readonly PendingRequest[]): AsyncGenerator<Buffer> {
  for (const request of requests) yield await request.line();
}

function failAll(requests: readonly PendingRequest[], thrown: unknown): void {
  const error = asSluiceError(thrown);
  for (const request of requests) if (!request.isSettled) request.fail(error);
}
