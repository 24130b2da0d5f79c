import { type Clock, sleep } from "../../../foundation/clock.ts";
import { SluiceError } from "../../../foundation/errors.ts";
import type { BatchRecord, BatchRecords, BatchState } from "../../batch-records.ts";
import type { ProviderBatch } from "./objects.ts";
import { ofFault, readResultLine } from "./objects.ts";
import type { PendingRequest } from "./pending-request.ts";
import { isLimit, type NewBatch, type Provider, type Refused } from "./provider.ts";
import type { ProviderBatchOptions } from "./settings.ts";

/** A batch is looked at again after this share of its age. */
const pollShare = 1 / 20;

/** Looks at a completed batch without all of its files: they may come a moment later. */
const maxLooksForFiles = 3;

const over: ReadonlySet<string> = new Set(["completed", "failed", "expired", "cancelled"]);

/** True for a batch that sends no more requests. */
export function isOver({ status }: Pick<ProviderBatch, "status">): boolean {
  return over.has(status);
}

function isCanceled({ status }: ProviderBatch): boolean {
  return status === "cancelling" || status === "cancelled";
}

/** How a batch is created, and recognized at its provider. */
export function wantedOf(record: BatchRecord, run: string): NewBatch {
  const { key, task, inputFile, inputCreatedAt, url } = record;
  const metadata = { sluice_run: run, sluice_task: String(task), sluice_batch: key };
  return { inputFile, inputCreatedAt, url, metadata };
}

interface SentBatchOptions {
  provider: Provider;
  records: BatchRecords;
  clock: Clock;
  settings: ProviderBatchOptions;
  /** Aborted when the engine is closed. */
  signal: AbortSignal;
}

/** Requests that a batch did not send: they go into another one. */
export interface Unsent {
  requests: readonly PendingRequest[];
  /** The provider's words if it had no room for the batch. */
  limit?: string;
}

/** A batch that will never be created: another process has found no room for it. */
const givenUp: Refused = { refused: "" };

const allSettled: Unsent = { requests: [] };

/**
 * A batch of this run: its record, the requests of it that wait here, and what its provider says of
 * it. It may come from another process, which had other requests of it.
 */
export class SentBatch {
  /** Without its requests once all of them are settled: a run has millions. */
  record: BatchRecord;
  /** Number of its requests. */
  readonly size: number;
  /** Requests without an outcome that was taken here. */
  readonly #open: Set<string>;
  readonly #waiting = new Map<string, PendingRequest>();
  readonly #options: SentBatchOptions;
  /** True if the provider may have been told to create it. */
  #mayExist: boolean;
  #seen: ProviderBatch | undefined;

  /** @param isFound another process has kept the record. */
  constructor(record: BatchRecord, isFound: boolean, options: SentBatchOptions) {
    this.record = record;
    this.size = record.requests.length;
    this.#mayExist = isFound;
    this.#options = options;
    this.#open = new Set(record.requests);
  }

  /** Requests wait for it here. */
  get isWanted(): boolean {
    return this.#waiting.size > 0;
  }

  get state(): BatchState {
    const { task } = this.record;
    const { id, status = "creating", counts } = this.#seen ?? {};
    return {
      ...{ task, state: status, requests: this.size },
      ...(id !== undefined && { batch: id }),
      done: counts ? counts.completed + counts.failed : 0,
    };
  }

  /** Takes a request that is in the batch and has no outcome yet; false if it is not. */
  attach(request: PendingRequest): boolean {
    if (!this.#open.has(request.id) || this.#waiting.has(request.id)) return false;
    this.#waiting.set(request.id, request);
    request.onGone = () => this.#waiting.delete(request.id);
    return true;
  }

  /** Follows the batch until its requests are settled, or it turns out that it sends none. */
  async follow(): Promise<Unsent> {
    const { clock, signal, settings } = this.#options;
    const startMs = clock.monotonic();
    const created = await this.#created();
    if ("refused" in created) {
      const { refused: limit } = created;
      await this.#options.provider.delete(this.record.inputFile);
      return { requests: this.#release(), ...(limit !== "" && { limit }) };
    }
    const wasCanceled = isCanceled(created);
    this.#seen = created;
    for (let looksForFiles = 0; this.isWanted; ) {
      const seen = this.#seen;
      if (isOver(seen) && (hasFiles(seen) || ++looksForFiles > maxLooksForFiles)) {
        return await this.#end(seen, wasCanceled);
      }
      const ageMs = clock.monotonic() - startMs;
      const { pollMs, maxPollMs } = settings;
      await sleep(clock, Math.max(pollMs, Math.min(maxPollMs, ageMs * pollShare)), signal);
      this.#seen = await this.#look(seen.id);
    }
    return allSettled;
  }

  /** The batch at the provider: a found one, or a new one. */
  async #created(): Promise<ProviderBatch | Refused> {
    const { provider, records } = this.#options;
    const { record } = this;
    const known = this.#mayExist ? await records.idOf(record) : undefined;
    if (known !== undefined) return known === null ? givenUp : await this.#look(known);
    const wanted = wantedOf(record, records.run);
    // Its creator may have been killed in the middle of the call, or still be at it.
    const found = this.#mayExist ? await provider.findLate(wanted) : undefined;
    this.#mayExist = true;
    const created = found ? { batch: found, isOnly: false } : await provider.create(wanted);
    if ("refused" in created) {
      const standing = await records.keepId(record, null);
      return standing === null ? created : await this.#look(standing);
    }
    const { batch, isOnly } = created;
    const standing = await records.keepId(record, batch.id);
    if (isOnly && standing === batch.id) return batch;
    // Another process, or another try, may have created one too.
    if (standing !== batch.id) await provider.cancel(batch.id);
    await provider.cancelOthers(wanted, standing);
    return standing === null ? givenUp : await this.#look(standing);
  }

  async #look(id: string): Promise<ProviderBatch> {
    const { provider, records } = this.#options;
    const seen = await provider.look(id);
    if (seen !== undefined) return seen;
    const detail = `${provider.address} does not know ${id}`;
    const hint =
      "use the key of the account and project that created it; to send its requests again in " +
      `another batch, remove ${records.placeOf(this.record)}`;
    throw new SluiceError("BATCH_LOST", detail, { hint });
  }

  async #end(seen: ProviderBatch, wasCanceled: boolean): Promise<Unsent> {
    const { provider, settings } = this.#options;
    // Nobody needs it any more; the results stay until they are in commits.
    if (!settings.keepFiles) await provider.delete(this.record.inputFile);
    if (seen.status === "failed") return this.#failed(seen);
    // Requests that come during a download may have missed their line: they are not given up.
    const inTime = [...this.#waiting.values()];
    for (const file of [seen.outputFile, seen.errorFile]) {
      const take = (line: Buffer) => this.#take(line, isCanceled(seen));
      if (file !== undefined) await provider.download(file, take);
    }
    const rest = inTime.filter(({ isSettled }) => !isSettled);
    // Cancelled before this call: what is missing is wanted now.
    if (wasCanceled) return { requests: this.#release(rest) };
    this.#reject(rest, missing(seen));
    return allSettled;
  }

  /** Gives up all requests that wait. */
  reject(error: SluiceError): void {
    this.#reject([...this.#waiting.values()], error);
  }

  #reject(requests: readonly PendingRequest[], error: SluiceError): void {
    for (const request of this.#release(requests)) request.fail(error);
  }

  /** Hands out requests that wait, for another batch. */
  #release(requests: readonly PendingRequest[] = [...this.#waiting.values()]) {
    for (const { id } of requests) this.#settled(id);
    return requests;
  }

  /** @param isCanceled what was not sent is like what has no line. */
  #take(line: Buffer, isCanceled: boolean): void {
    const result = readResultLine(line, this.#options.provider.failures);
    if (result === undefined) return;
    if (isCanceled && "error" in result && result.error.code === "BATCH_INCOMPLETE") return;
    const request = this.#waiting.get(result.id);
    if (request === undefined) return;
    this.#settled(result.id);
    if ("body" in result) request.take(result.body);
    else request.fail(result.error);
  }

  /** Nothing was sent: lines with faults fail, and the others are sent without them. */
  #failed({ id, errors }: ProviderBatch): Unsent {
    const { failures } = this.#options.provider;
    const said = failures.redact(
      errors.map(({ code, message }) => `${message} (${code})`).join("; "),
    );
    if (isLimit(said)) return { requests: this.#release(), limit: said };
    let isOfLines = false;
    for (const fault of errors) {
      const line = this.record.requests[(fault.line ?? 0) - 1];
      if (line === undefined) continue;
      isOfLines = true;
      const request = this.#waiting.get(line);
      // One that does not wait any more is in no other batch either.
      if (request) this.#reject([request], ofFault(fault, failures));
    }
    const [first] = errors;
    // A file may have been deleted; it is uploaded again.
    if (isOfLines || first?.code === "invalid_request") return { requests: this.#release() };
    const failure = first && ofFault(first, failures);
    if (failure?.scope === "run") throw failure;
    throw new SluiceError("ENDPOINT_UNUSABLE", `${id} failed: ${said}`);
  }

  #settled(id: string): void {
    this.#open.delete(id);
    this.#waiting.delete(id);
    if (this.#open.size === 0) this.record = { ...this.record, requests: [] };
  }
}

/** The error of requests without a line in the results of a batch. */
function missing({ id, status }: ProviderBatch): SluiceError {
  if (status === "cancelled") return new SluiceError("BATCH_STOPPED", id);
  const detail = status === "expired" ? `${id} expired` : `${id} has no result for it`;
  return new SluiceError("BATCH_INCOMPLETE", detail);
}

/** A completed batch has files for all of its requests, as far as its counts tell. */
function hasFiles({ status, counts, outputFile, errorFile }: ProviderBatch): boolean {
  if (status !== "completed") return true;
  const isAnswered = counts.completed === 0 || outputFile !== undefined;
  return isAnswered && (counts.failed === 0 || errorFile !== undefined || outputFile !== undefined);
}
