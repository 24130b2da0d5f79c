import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import type { SecureContext } from "node:tls";
import { type Dispatcher, Pool, ProxyAgent } from "undici";
import type { Clock } from "../../foundation/clock.ts";
import { connectorWithoutInterim } from "../../foundation/interim-replies.ts";
import { basicCredentials, proxyFor } from "../../foundation/proxy.ts";
import { tunnelOptions } from "../../foundation/proxy-tunnel.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import { type Incoming, ReplyMemory } from "./reply-memory.ts";

/** A received reply, whatever its status. */
export interface HttpReply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** Takes a reply in parts, if it is a stream of events. */
export interface ReplySink {
  /** Takes replies of any other type in parts as well. */
  readonly takesAnyType?: boolean;
  add(chunk: Uint8Array): void;
  /**
   * The whole reply.
   * @throws TransportError if it is incomplete.
   */
  end(headers: IncomingHttpHeaders): HttpReply;
}

/** Why there is no reply. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  /**
   * `unreachable`: the request was not sent. `timeout`, `lost`: it was sent, but there is no whole
   * reply. `garbled`: the reply is not HTTP, or is too long.
   */
  readonly kind: "unreachable" | "timeout" | "lost" | "garbled";
  /** The system's or undici's code, such as ECONNREFUSED. */
  readonly code: string;

  constructor(kind: TransportError["kind"], message: string, code = "") {
    super(message);
    this.kind = kind;
    this.code = code;
  }
}

/** A body that is read while it is sent, once for each try. */
export interface StreamedBody {
  contentType: string;
  contentLength: number;
  stream(): AsyncIterable<Uint8Array>;
}

/** JSON text, or any other body. */
export type RequestBody = string | StreamedBody;

interface TransportOptions {
  clock: Clock;
  environment: Readonly<Record<string, string | undefined>>;
  /** Any address on the server; only its origin counts. */
  address: URL;
  headers: Readonly<Record<string, string>>;
  maxConnections: number;
  timeoutMs: number;
  maxResponseBytes: number;
  /** Trusted issuers of certificates; default: those of Node. */
  secureContext?: SecureContext | undefined;
  /** Listens on the signals of requests, possibly shared. Default: its own. */
  watch?: AbortWatch;
  /** Bytes of replies at once, possibly shared. Default: its own. */
  replyMemory?: ReplyMemory;
}

/** Longest wait for a connection. */
const connectTimeoutMs = 10_000;

/**
 * Sends requests over a pool of kept-alive connections, through the environment's proxy if there is
 * one. Requests beyond the connections wait in line; their time counts from their sending.
 */
export class Transport {
  readonly #dispatcher: Dispatcher;
  readonly #headers: Record<string, string>;
  readonly #origin: string;
  /** The text before a path: the whole origin for a plain HTTP proxy. */
  readonly #pathPrefix: string;
  readonly #exchanges: Exchanges;

  constructor(options: TransportOptions) {
    const { address, maxConnections, timeoutMs, secureContext } = options;
    const tls = secureContext === undefined ? {} : { secureContext };
    const connect = { timeout: Math.min(connectTimeoutMs, timeoutMs), ...tls };
    const commonOptions = {
      connections: maxConnections,
      pipelining: 1,
      // Our own deadline is exact and covers the whole reply.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxResponseSize: options.maxResponseBytes,
    };
    const poolOptions = { ...commonOptions, connect: connectorWithoutInterim(connect) };
    const proxy = proxyFor(address, options.environment);
    const credentials = proxy && basicCredentials(proxy);
    this.#headers = { ...options.headers };
    this.#exchanges = new Exchanges(options);
    if (proxy && address.protocol === "http:") {
      this.#origin = proxy.origin;
      this.#pathPrefix = address.origin;
      this.#headers.host = address.host;
      if (credentials) this.#headers["proxy-authorization"] = credentials;
      this.#dispatcher = new Pool(proxy.origin, poolOptions);
    } else {
      this.#origin = address.origin;
      this.#pathPrefix = "";
      this.#dispatcher = proxy
        ? new ProxyAgent({
            ...{ uri: proxy.origin, ...commonOptions, ...tunnelOptions(connect.timeout), connect },
            ...{ requestTls: tls, proxyTls: tls, ...(credentials && { token: credentials }) },
          })
        : new Pool(address.origin, poolOptions);
    }
  }

  /**
   * Sends `body` and returns the whole reply.
   *
   * @param sink gets a successful reply that is a stream of events, and returns the whole.
   * @param more headers of this request alone.
   * @throws TransportError if there is no reply; the signal's reason.
   */
  post(
    path: string,
    body: RequestBody,
    signal: AbortSignal,
    sink?: ReplySink,
    more?: Readonly<Record<string, string>>,
  ): Promise<HttpReply> {
    const headers = more ? { ...this.#headers, ...more } : this.#headers;
    if (typeof body === "string") return this.#send("POST", path, headers, body, signal, sink);
    const stream = Readable.from(body.stream(), { objectMode: false });
    const ofBody = {
      "content-type": body.contentType,
      "content-length": String(body.contentLength),
    };
    return this.#send("POST", path, { ...headers, ...ofBody }, stream, signal);
  }

  /**
   * Gets a page and returns the whole reply.
   * @throws as `post`.
   */
  get(path: string, signal: AbortSignal, sink?: ReplySink): Promise<HttpReply> {
    return this.#send("GET", path, this.#headers, null, signal, sink);
  }

  /**
   * Deletes a resource and returns the whole reply.
   * @throws as `post`.
   */
  delete(path: string, signal: AbortSignal): Promise<HttpReply> {
    return this.#send("DELETE", path, this.#headers, null, signal);
  }

  #send(
    method: "GET" | "POST" | "DELETE",
    path: string,
    headers: Record<string, string>,
    body: string | Readable | null,
    signal: AbortSignal,
    sink?: ReplySink,
  ): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      const exchange = new Exchange(this.#exchanges, signal, sink, resolve, reject);
      this.#exchanges.watch.add(signal, exchange);
      if (exchange.isSettled) return;
      const fullPath = this.#pathPrefix + path;
      const options = { origin: this.#origin, path: fullPath, method, headers, body };
      this.#dispatcher.dispatch(options, exchange);
    });
  }

  /** Breaks every connection; requests in flight are rejected with `error`. */
  async close(error: Error): Promise<void> {
    this.#exchanges.close(error);
    await this.#dispatcher.destroy(error);
  }
}

/** The shared state of the exchanges of one transport. One timer serves all. */
class Exchanges {
  readonly watch: AbortWatch;
  readonly memory: ReplyMemory;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  /** Why no more requests are sent. */
  closedBy: Error | undefined;
  /** Without order, which is cheaper than a Set with constant changes. */
  readonly #sent: Exchange[] = [];
  #cancelTimer: (() => void) | undefined;

  constructor(options: TransportOptions) {
    const { watch = new AbortWatch(), replyMemory = new ReplyMemory() } = options;
    this.#clock = options.clock;
    this.#timeoutMs = options.timeoutMs;
    this.watch = watch;
    this.memory = replyMemory;
  }

  send(exchange: Exchange): void {
    exchange.deadlineMs = this.#clock.monotonic() + this.#timeoutMs;
    // It may be sent again on another connection.
    if (exchange.place < 0) exchange.place = this.#sent.push(exchange) - 1;
    if (!this.#cancelTimer) this.#arm(this.#timeoutMs);
  }

  end(exchange: Exchange): void {
    const { place } = exchange;
    if (place < 0) return;
    exchange.place = -1;
    const last = this.#sent.pop()!;
    if (last === exchange) return;
    this.#sent[place] = last;
    last.place = place;
  }

  close(error: Error): void {
    this.closedBy = error;
    this.#cancelTimer?.();
    for (const exchange of [...this.#sent]) exchange.abort(error);
  }

  #arm(delayMs: number): void {
    this.#cancelTimer = this.#clock.schedule(delayMs, () => this.#expire());
  }

  #expire(): void {
    this.#cancelTimer = undefined;
    const nowMs = this.#clock.monotonic();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const exchange of [...this.#sent]) {
      if (exchange.deadlineMs > nowMs) nextMs = Math.min(nextMs, exchange.deadlineMs);
      else exchange.abort(new TransportError("timeout", `no whole reply in ${this.#timeoutMs} ms`));
    }
    if (Number.isFinite(nextMs)) this.#arm(nextMs - nowMs);
  }
}

/** One request and its reply. */
class Exchange implements Dispatcher.DispatchHandler, Abortable, Incoming {
  deadlineMs = 0;
  /** Place among the sent ones; -1: it was not sent, or is over. */
  place = -1;
  watchedPlace = -1;
  isSettled = false;
  readonly #exchanges: Exchanges;
  readonly #signal: AbortSignal;
  readonly #resolve: (reply: HttpReply) => void;
  readonly #reject: (reason: unknown) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #first: Buffer | undefined;
  #rest: Buffer[] | undefined;
  readonly #sink: ReplySink | undefined;
  /** The sink gets the reply. */
  #isStream = false;

  constructor(
    exchanges: Exchanges,
    signal: AbortSignal,
    sink: ReplySink | undefined,
    resolve: (reply: HttpReply) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#exchanges = exchanges;
    this.#signal = signal;
    this.#sink = sink;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Ends the exchange; frees its connection if it has one. */
  abort(reason: unknown): void {
    this.#settle();
    this.#reject(reason);
    this.#controller?.abort(new Error("aborted"));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.isSettled) controller.abort(new Error("aborted"));
    else this.#exchanges.send(this);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    this.#status = status;
    this.#headers = headers;
    if (this.#sink === undefined || status >= 300) return;
    const isEvents = String(headers["content-type"]).startsWith("text/event-stream");
    this.#isStream = isEvents || this.#sink.takesAnyType === true;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isStream) return this.#pass(chunk);
    // Almost all replies have one chunk, and need not be counted.
    if (this.#first === undefined) this.#first = chunk;
    else this.#keep(chunk);
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    // Not while another connection is being read, as undici requires.
    queueMicrotask(() => this.#controller?.resume());
  }

  #pass(chunk: Buffer): void {
    if (this.isSettled) return;
    try {
      this.#sink!.add(chunk);
    } catch (error) {
      this.abort(error);
    }
  }

  #keep(chunk: Buffer): void {
    if (this.isSettled) return;
    if (this.#rest === undefined) {
      this.#rest = [this.#first!];
      this.#exchanges.memory.take(this, this.#first!.length);
    }
    this.#rest.push(chunk);
    this.#exchanges.memory.take(this, chunk.length);
  }

  onResponseEnd(): void {
    if (this.isSettled) return;
    if (this.#isStream) return this.#endStream();
    const bytes = this.#rest ? Buffer.concat(this.#rest) : this.#first;
    this.#settle();
    const text = bytes?.toString() ?? "";
    // Bytes that are not UTF-8 become U+FFFD, which answers may also contain. Faults stay
    // unchanged.
    if (this.#status < 300 && text.includes("\uFFFD") && !isUtf8(bytes!)) {
      this.#reject(new TransportError("garbled", "the reply is not UTF-8 text"));
    } else this.#resolve({ status: this.#status, headers: this.#headers, text });
  }

  #endStream(): void {
    this.#settle();
    try {
      this.#resolve(this.#sink!.end(this.#headers));
    } catch (error) {
      this.#reject(error);
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.isSettled) return;
    this.#settle();
    const { closedBy } = this.#exchanges;
    this.#reject(closedBy ?? transportError(error, this.#controller !== undefined));
  }

  #settle(): void {
    this.isSettled = true;
    this.#first = this.#rest = undefined;
    this.#exchanges.memory.release(this);
    this.#exchanges.end(this);
    this.#exchanges.watch.remove(this.#signal, this);
  }
}

const timeoutCodes = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);

function transportError(error: Error & { code?: unknown }, wasSent: boolean): Error {
  const code = typeof error.code === "string" ? error.code : "";
  // A fault of ours, which waiting does not fix.
  if (code === "UND_ERR_INVALID_ARG") return error;
  const message =
    code === "" || error.message.includes(code) ? error.message : `${code}: ${error.message}`;
  if (!wasSent) return new TransportError("unreachable", message, code);
  if (timeoutCodes.has(code)) return new TransportError("timeout", message, code);
  if (error.name === "HTTPParserError" || code.startsWith("UND_ERR_RES_")) {
    return new TransportError("garbled", message, code);
  }
  return new TransportError("lost", message, code);
}
