import type { IncomingHttpHeaders } from "node:http";
import { type buildConnector, type Dispatcher, Pool, ProxyAgent } from "undici";
import type { Clock } from "../../foundation/clock.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import { proxyFor } from "./proxy.ts";

/** A reply as it came, whatever its status. */
export interface HttpReply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** Why there is no reply. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  /**
   * `unreachable`: the request was not sent. `timeout`, `lost`: it was, and no whole reply came.
   * `garbled`: what came is no HTTP, or too much.
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

interface TransportOptions {
  clock: Clock;
  environment: Readonly<Record<string, string | undefined>>;
  /** Any address on the server; only its origin counts. */
  address: URL;
  headers: Readonly<Record<string, string>>;
  maxConnections: number;
  timeoutMs: number;
  maxResponseBytes: number;
}

/** Longest wait for a connection. */
const connectTimeoutMs = 10_000;

/**
 * POSTs JSON over a pool of kept-alive connections, through the environment's proxy if there is
 * one. Requests beyond the connections wait in line; their time counts from when they are sent.
 */
export class Transport {
  readonly #dispatcher: Dispatcher;
  readonly #headers: Record<string, string>;
  readonly #origin: string;
  /** What comes before a path: the whole origin where a proxy is asked in plain HTTP. */
  readonly #pathPrefix: string;
  readonly #exchanges: Exchanges;

  constructor(options: TransportOptions) {
    const { address, maxConnections, timeoutMs } = options;
    const poolOptions = {
      connections: maxConnections,
      pipelining: 1,
      // One tick later than our own deadline, which is exact and counts the whole reply.
      headersTimeout: timeoutMs + 1000,
      bodyTimeout: timeoutMs + 1000,
      maxResponseSize: options.maxResponseBytes,
      connect: { timeout: Math.min(connectTimeoutMs, timeoutMs) },
    };
    const proxy = proxyFor(address, options.environment);
    this.#headers = { ...options.headers };
    this.#exchanges = new Exchanges(options.clock, timeoutMs);
    if (proxy && address.protocol === "http:") {
      this.#origin = proxy.origin;
      this.#pathPrefix = address.origin;
      this.#headers.host = address.host;
      const credentials = basicCredentials(proxy);
      if (credentials) this.#headers["proxy-authorization"] = credentials;
      this.#dispatcher = new Pool(proxy.origin, poolOptions);
    } else {
      this.#origin = address.origin;
      this.#pathPrefix = "";
      this.#dispatcher = proxy
        ? new ProxyAgent({ uri: proxy.href, ...poolOptions, factory: tunnelPool })
        : new Pool(address.origin, poolOptions);
    }
  }

  /**
   * Sends `body` and gives the whole reply.
   *
   * @throws TransportError when there is none; the signal's reason.
   */
  post(path: string, body: string, signal: AbortSignal): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      const exchange = new Exchange(this.#exchanges, signal, resolve, reject);
      this.#exchanges.watch.add(signal, exchange);
      if (exchange.isSettled) return;
      const options: Dispatcher.DispatchOptions = {
        origin: this.#origin,
        path: this.#pathPrefix + path,
        method: "POST",
        headers: this.#headers,
        body,
      };
      this.#dispatcher.dispatch(options, exchange);
    });
  }

  /** Breaks every connection; requests under way are rejected with `error`. */
  async close(error: Error): Promise<void> {
    this.#exchanges.close(error);
    await this.#dispatcher.destroy(error);
  }
}

/**
 * A pool whose connections go through a tunnel. Undici takes a tunnel that breaks while it is
 * made for a broken connection and dials again without end; under another code it gives up.
 */
function tunnelPool(origin: string | URL, options: object): Dispatcher {
  const { connect, ...rest } = options as { connect: buildConnector.connector };
  return new Pool(origin, {
    ...rest,
    connect(target, callback) {
      connect(target, (error, socket) => {
        if (error === null) return callback(null, socket);
        const code = (error as NodeJS.ErrnoException).code;
        const renamed = code?.startsWith("UND_ERR_") ? "ERR_PROXY_TUNNEL" : code;
        callback(Object.assign(new Error(`no tunnel: ${error.message}`), { code: renamed }), null);
      });
    },
  });
}

/** `Basic …` of a URL's user and password, or undefined where it has none. */
export function basicCredentials({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined;
  const plain = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(plain).toString("base64")}`;
}

/** What the exchanges of one transport share. One timer serves all: deadlines come in order. */
class Exchanges {
  readonly watch = new AbortWatch();
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #held = new Set<Exchange>();
  readonly #sent = new Set<Exchange>();
  #cancelTimer: (() => void) | undefined;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  hold(exchange: Exchange): void {
    this.#held.add(exchange);
  }

  send(exchange: Exchange): void {
    // Sent anew on another connection, it goes to the end of the line.
    this.#sent.delete(exchange);
    exchange.deadlineMs = this.#clock.monotonic() + this.#timeoutMs;
    this.#sent.add(exchange);
    if (!this.#cancelTimer) this.#arm(this.#timeoutMs);
  }

  end(exchange: Exchange): void {
    this.#held.delete(exchange);
    this.#sent.delete(exchange);
  }

  close(error: Error): void {
    this.#cancelTimer?.();
    for (const exchange of [...this.#held]) exchange.abort(error);
  }

  #arm(delayMs: number): void {
    this.#cancelTimer = this.#clock.schedule(delayMs, () => this.#expire());
  }

  #expire(): void {
    this.#cancelTimer = undefined;
    const nowMs = this.#clock.monotonic();
    for (const exchange of this.#sent) {
      if (exchange.deadlineMs > nowMs) return this.#arm(exchange.deadlineMs - nowMs);
      exchange.abort(new TransportError("timeout", `no whole reply in ${this.#timeoutMs} ms`));
    }
  }
}

/** One request and what comes back for it. */
class Exchange implements Dispatcher.DispatchHandler, Abortable {
  deadlineMs = 0;
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

  constructor(
    exchanges: Exchanges,
    signal: AbortSignal,
    resolve: (reply: HttpReply) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#exchanges = exchanges;
    this.#signal = signal;
    this.#resolve = resolve;
    this.#reject = reject;
    exchanges.hold(this);
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
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#first === undefined) this.#first = chunk;
    else if (this.#rest === undefined) this.#rest = [this.#first, chunk];
    else this.#rest.push(chunk);
  }

  onResponseEnd(): void {
    if (this.isSettled) return;
    this.#settle();
    const bytes = this.#rest ? Buffer.concat(this.#rest) : this.#first;
    const text = bytes?.toString() ?? "";
    this.#resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.isSettled) return;
    this.#settle();
    this.#reject(transportError(error, this.#controller !== undefined));
  }

  #settle(): void {
    this.isSettled = true;
    this.#exchanges.end(this);
    this.#exchanges.watch.remove(this.#signal, this);
  }
}

const timeoutCodes = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);

function transportError(error: Error & { code?: unknown }, wasSent: boolean): Error {
  const code = typeof error.code === "string" ? error.code : "";
  // A fault of ours, which no waiting mends.
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
