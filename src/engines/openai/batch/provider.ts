import { backoffMs } from "../../../foundation/backoff.ts";
import { sleep } from "../../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import type { JsonObject } from "../../../foundation/json.ts";
import { limits } from "../../../foundation/limits.ts";
import type { EngineContext } from "../../engine.ts";
import { endpointsOf } from "../api-key.ts";
import { trustOf } from "../certificates.ts";
import { FailureReader } from "../failures.ts";
import { formWithFile } from "../form.ts";
import type { OpenaiModelOptions } from "../options.ts";
import { parseReply } from "../reply.ts";
import { ServerAccess } from "../server-access.ts";
import { type HttpReply, Transport, TransportError } from "../transport.ts";
import { LineSink } from "./line-sink.ts";
import { type ProviderBatch, readBatch, readFileObject, readList } from "./objects.ts";
import { providerBatchOptions } from "./settings.ts";

/** The outcome of one HTTP request. */
type Outcome =
  | { of: "reply"; reply: HttpReply }
  /** The provider answered with 404. */
  | { of: "unknown" }
  /** Worth another try. `isUnclear`: the provider may have done what it was told. */
  | { of: "failure"; error: SluiceError; isUnclear: boolean };

/** What a batch is created from. */
export interface NewBatch {
  inputFile: string;
  /** The provider's time when that file was created: the batch cannot be older. */
  inputCreatedAt: number;
  url: string;
  metadata: Readonly<Record<string, string>>;
}

/** The provider's words for having no room for a batch. */
export interface Refused {
  refused: string;
}

const batchesOfPage = 100;

/**
 * The files and batches of one provider, by the API of OpenAI. Each call is repeated after what may
 * pass, with a growing wait, up to `maxEndpointDownMs` without any success.
 *
 * Every method throws SluiceError of scope `run`: `ENDPOINT_DOWN`, `AUTHENTICATION_FAILED`,
 * `ENDPOINT_UNUSABLE` and others, or the reason of `close`.
 */
export class Provider {
  /** Its address, for messages. */
  readonly address: string;
  readonly failures: FailureReader;
  readonly #context: EngineContext;
  readonly #options: OpenaiModelOptions;
  readonly #server: ServerAccess;
  readonly #calls: Transport;
  readonly #downloads: Transport;
  readonly #stop = new AbortController();

  constructor(options: OpenaiModelOptions, context: EngineContext) {
    const { clock, environment } = context;
    const server = new ServerAccess(endpointsOf(options)[0]!, environment);
    this.#context = context;
    this.#options = options;
    this.#server = server;
    this.address = server.address;
    this.failures = new FailureReader(server.secrets, clock.now, options.maxEndpointDownMs);
    const transport = (maxResponseBytes: number) =>
      new Transport({
        ...{ clock, environment, address: server.url, maxResponseBytes },
        headers: server.headers,
        maxConnections: limits.maxProviderBatches,
        timeoutMs: options.timeoutMs,
        secureContext: trustOf(environment),
      });
    this.#calls = transport(limits.maxResponseBytes);
    this.#downloads = transport(limits.maxProviderResultBytes);
  }

  /**
   * Uploads the lines of a batch, and returns the file.
   *
   * @param bytes the length of all lines.
   * @param lines called once for each try.
   */
  async upload(name: string, bytes: number, lines: () => AsyncIterable<Uint8Array>) {
    const form = formWithFile([["purpose", "batch"]], this.#context.random, {
      ...{ name, bytes },
      read: lines,
    });
    const post = () => this.#calls.post(this.#server.path("/files"), form, this.#stop.signal);
    return await this.#persist("POST /files", post, (reply) => readFileObject(this.#json(reply)));
  }

  /**
   * Creates a batch, once: after a reply that was lost, the batches of the provider are searched
   * for it before it is created again.
   *
   * @returns the batch, and whether it certainly is the only one of its file; or why the provider
   *   has no room for it now.
   */
  async create(batch: NewBatch): Promise<{ batch: ProviderBatch; isOnly: boolean } | Refused> {
    const body = JSON.stringify({
      ...{ input_file_id: batch.inputFile, endpoint: batch.url, completion_window: "24h" },
      metadata: batch.metadata,
    });
    const path = this.#server.path("/batches");
    const post = () => this.#calls.post(path, body, this.#stop.signal);
    const outage = new Outage(this.#options.maxEndpointDownMs, this.#context);
    for (let isOnly = true; ; ) {
      const outcome = await this.#once("POST /batches", post);
      if (outcome.of === "unknown") throw this.#unusable("POST /batches", "status 404");
      if (outcome.of === "reply") {
        const created = this.#readable(() => readBatch(this.#json(outcome.reply)));
        if (created) return { batch: created, isOnly };
      } else if (isLimit(outcome.error.message)) return { refused: outcome.error.message };
      const failure = outcome.of === "failure" ? outcome : { error: unreadable, isUnclear: true };
      await outage.wait(failure.error, this.address, this.#stop.signal);
      if (!failure.isUnclear) continue;
      isOnly = false;
      const found = await this.findLate(batch);
      if (found) return { batch: found, isOnly };
    }
  }

  /** Like `find`, and looks a second time before it says that there is none. */
  async findLate(batch: NewBatch): Promise<ProviderBatch | undefined> {
    const { pollMs } = providerBatchOptions(this.#options);
    const found = await this.find(batch);
    if (found) return found;
    await sleep(this.#context.clock, pollMs, this.#stop.signal);
    return await this.find(batch);
  }

  /** The batch that was created from a file; the oldest if there are several. */
  async find(batch: NewBatch): Promise<ProviderBatch | undefined> {
    return (await this.#findAll(batch))[0];
  }

  /** Cancels the batches that were created from a file, except one. */
  async cancelOthers(batch: NewBatch, kept: string | null): Promise<void> {
    for (const { id } of await this.#findAll(batch)) if (id !== kept) await this.cancel(id);
  }

  /** Searches the provider's batches for those of a file, the oldest first. */
  async #findAll({ inputFile, inputCreatedAt, metadata }: NewBatch): Promise<ProviderBatch[]> {
    const found: ProviderBatch[] = [];
    let newest = 0;
    let after = "";
    for (;;) {
      const page = await this.#page(after);
      const isOurs = (each: ProviderBatch) =>
        each.inputFile === inputFile || each.metadata.sluice_batch === metadata.sluice_batch;
      found.push(...page.batches.filter(isOurs));
      const last = page.batches.at(-1);
      if (!page.hasMore || last === undefined) break;
      for (const { createdAt } of page.batches) newest = Math.max(newest, createdAt);
      // Usually the newest come first; a server with another order is read to its end.
      if (newest > last.createdAt && last.createdAt < inputCreatedAt) break;
      after = last.id;
    }
    return found.sort((a, b) => a.createdAt - b.createdAt);
  }

  /** A batch as it is now; undefined if the provider does not know it. */
  look(id: string): Promise<ProviderBatch | undefined> {
    return this.#get(`/batches/${encodeURIComponent(id)}`, (reply) => readBatch(this.#json(reply)));
  }

  /** Tells the provider to end a batch; one that has ended stays as it is. */
  async cancel(id: string): Promise<void> {
    const call = `/batches/${encodeURIComponent(id)}/cancel`;
    const post = () => this.#calls.post(this.#server.path(call), "", this.#stop.signal);
    for (const outage = new Outage(this.#options.maxEndpointDownMs, this.#context); ; ) {
      const outcome = await this.#once(`POST ${call}`, post, [409]);
      if (outcome.of !== "failure") return;
      await outage.wait(outcome.error, this.address, this.#stop.signal);
    }
  }

  /**
   * Deletes a file if that works at once: a file that stays does no harm.
   *
   * @returns why it stays; undefined if it is gone.
   */
  async delete(file: string): Promise<string | undefined> {
    const call = `/files/${encodeURIComponent(file)}`;
    const send = () => this.#calls.delete(this.#server.path(call), this.#stop.signal);
    try {
      const outcome = await this.#once(`DELETE ${call}`, send);
      return outcome.of === "failure" ? outcome.error.message : undefined;
    } catch (error) {
      return asSluiceError(error).message;
    }
  }

  /**
   * Reads a file of results line by line; from its beginning again if the connection breaks. A file
   * that the provider does not know has no line.
   */
  async download(file: string, onLine: (line: Buffer) => void): Promise<void> {
    const path = this.#server.path(`/files/${encodeURIComponent(file)}/content`);
    const get = () => this.#downloads.get(path, this.#stop.signal, new LineSink(onLine));
    await this.#persist(`GET /files/${file}/content`, get, () => true, true);
  }

  /** Breaks every call; those in progress are rejected with `error`. */
  async close(error: SluiceError): Promise<void> {
    this.#stop.abort(error);
    await Promise.all([this.#calls.close(error), this.#downloads.close(error)]);
  }

  #page(after: string) {
    const query = `limit=${batchesOfPage}${after && `&after=${encodeURIComponent(after)}`}`;
    const { root, url } = this.#server;
    const joined = url.search === "" ? `?${query}` : `${url.search}&${query}`;
    const get = () => this.#calls.get(`${root}/batches${joined}`, this.#stop.signal);
    return this.#persist("GET /batches", get, (reply) => readList(this.#json(reply)));
  }

  async #get<T>(call: string, read: (reply: HttpReply) => T): Promise<T | undefined> {
    const get = () => this.#calls.get(this.#server.path(call), this.#stop.signal);
    return await this.#persist(`GET ${call}`, get, read, true);
  }

  #json(reply: HttpReply): JsonObject {
    return parseReply(reply, (text) => this.failures.redact(text));
  }

  /** Sends until there is a readable reply. */
  async #persist<T>(call: string, send: () => Promise<HttpReply>, read: Read<T>): Promise<T>;
  async #persist<T>(
    call: string,
    send: () => Promise<HttpReply>,
    read: Read<T>,
    mayBeUnknown: true,
  ): Promise<T | undefined>;
  async #persist<T>(
    call: string,
    send: () => Promise<HttpReply>,
    read: Read<T>,
    mayBeUnknown = false,
  ): Promise<T | undefined> {
    const outage = new Outage(this.#options.maxEndpointDownMs, this.#context);
    for (;;) {
      const outcome = await this.#once(call, send);
      if (outcome.of === "unknown") {
        if (mayBeUnknown) return undefined;
        throw this.#unusable(call, "status 404");
      }
      if (outcome.of === "reply") {
        const value = this.#readable(() => read(outcome.reply));
        if (value !== undefined) return value;
      }
      const error = outcome.of === "failure" ? outcome.error : unreadable;
      await outage.wait(error, this.address, this.#stop.signal);
    }
  }

  /** What is read from a reply; undefined if it is not what the API promises. */
  #readable<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      if (error instanceof SluiceError && error.code === "RESPONSE_MALFORMED") return undefined;
      throw error;
    }
  }

  /** @param fine further statuses that count as success. */
  async #once(
    call: string,
    send: () => Promise<HttpReply>,
    fine: readonly number[] = [],
  ): Promise<Outcome> {
    let reply: HttpReply;
    try {
      reply = await send();
    } catch (thrown) {
      this.#stop.signal.throwIfAborted();
      if (!(thrown instanceof TransportError)) throw thrown;
      const failure = this.failures.ofTransport(thrown);
      if (failure.of === "request" && failure.error.scope === "run") throw failure.error;
      const message = failure.of === "request" ? failure.error.message : failure.failure.message;
      const error = new SluiceError("SERVER_ERROR", `${call}: ${message}`);
      return { of: "failure", error, isUnclear: thrown.kind !== "unreachable" };
    }
    const { status } = reply;
    if ((status >= 200 && status < 300) || fine.includes(status)) return { of: "reply", reply };
    return this.#refused(call, reply);
  }

  #refused(call: string, reply: HttpReply): Outcome {
    if (reply.status === 404) return { of: "unknown" };
    const failure = this.failures.ofStatus(reply);
    if (failure.of === "endpoint") {
      const { message, retryAfterMs } = failure.failure;
      const error = new SluiceError("SERVER_ERROR", `${call}: ${message}`, {
        ...(retryAfterMs !== undefined && { retryAfterMs }),
      });
      return { of: "failure", error, isUnclear: reply.status !== 429 };
    }
    const { error } = failure;
    if (error.scope !== "run" && error.retryable) {
      return { of: "failure", error, isUnclear: true };
    }
    if (error.scope !== "run" && isLimit(error.message)) {
      return { of: "failure", error, isUnclear: false };
    }
    if (error.code !== "AUTHENTICATION_FAILED") throw this.#unusable(call, error.message);
    throw Object.assign(error, { hint: this.#server.keyHint });
  }

  #unusable(call: string, message: string): SluiceError {
    return new SluiceError("ENDPOINT_UNUSABLE", `${this.address}: ${call}: ${message}`);
  }
}

type Read<T> = (reply: HttpReply) => T;

const unreadable = new SluiceError("RESPONSE_MALFORMED", "of the batch API");

/** Codes and words of providers for limits that pass when other batches end. */
const limitWords = /token_limit_exceeded|too_many_tasks|enqueued.{0,20}(token|request)/i;

/** True for a message that says that too much is queued at the provider already. */
export function isLimit(message: string): boolean {
  return limitWords.test(message);
}

/** A time without success, and the waits in it. */
class Outage {
  readonly #maxMs: number;
  readonly #context: EngineContext;
  #sinceMs: number | undefined;
  #tries = 0;

  constructor(maxMs: number, context: EngineContext) {
    this.#maxMs = maxMs;
    this.#context = context;
  }

  /**
   * Waits for the next try.
   * @throws SluiceError `ENDPOINT_DOWN` if it has lasted too long; the signal's reason.
   */
  async wait(error: SluiceError, address: string, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#context;
    this.#sinceMs ??= clock.monotonic();
    const waitMs = backoffMs(++this.#tries, random, undefined, error.retryAfterMs);
    if (clock.monotonic() + waitMs - this.#sinceMs > this.#maxMs) {
      throw new SluiceError("ENDPOINT_DOWN", `${address}: ${error.message}`, { cause: error });
    }
    await sleep(clock, waitMs, signal);
  }
}
