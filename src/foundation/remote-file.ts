import type { LookupFunction } from "node:net";
import { Agent, Dispatcher, ProxyAgent, request } from "undici";
import { connectorWithoutInterim } from "./interim-replies.ts";
import { limits } from "./limits.ts";
import { basicCredentials, proxyFor } from "./proxy.ts";
import { tunnelOptions } from "./proxy-tunnel.ts";
import type { Environment } from "./subprocess.ts";

/** Bytes of a body that are read ahead of the reader. */
const maxBodyBufferBytes = 16 * 1024 * 1024;

/** A server's response to a request for a file. */
export interface RemoteResponse {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: Dispatcher.ResponseData["body"];
  /** The address that gave this response, after all redirects. */
  url: string;
  /** True if the response comes from the origin of the request, not from one it redirected to. */
  isFirstHost: boolean;
  /** SHA-256 of the file's content and its size, if the Hugging Face hub named them. */
  linkedSha256?: string;
  linkedBytes?: number;
}

/** A request for a file. */
export interface RemoteRequest {
  url: string;
  /** Sent as a bearer token to the origin of `url`, never to another origin. */
  token?: string;
  headers?: Readonly<Record<string, string>>;
}

/** Bounds of the connections to servers. */
export interface DispatcherOptions {
  connectTimeoutMs: number;
  /** Longest time without a byte. */
  stallTimeoutMs: number;
  /** Most connections to one server; default: as many as are needed. */
  connections?: number;
  /** How names of servers are resolved; proxies resolve names themselves. Default: as Node does. */
  lookup?: LookupFunction;
}

/** The dispatcher for an address; may throw if the address must not be requested. */
export type DispatcherFor = (url: URL) => Dispatcher;

/** A dispatcher for downloads, which uses the proxies that the environment names. */
export function downloadDispatcher(
  environment: Environment,
  { connectTimeoutMs, stallTimeoutMs, connections, lookup }: DispatcherOptions,
): Dispatcher {
  const options = {
    connect: connectorWithoutInterim({ timeout: connectTimeoutMs, ...(lookup && { lookup }) }),
    headersTimeout: stallTimeoutMs,
    bodyTimeout: stallTimeoutMs,
    ...(connections !== undefined && { connections }),
  };
  // Many proxies make tunnels for https only.
  const proxied = { ...options, proxyTunnel: false, ...tunnelOptions(connectTimeoutMs) };
  return new AgentWithProxies(environment, options, proxied);
}

/** Connects to each server directly or through a proxy, as `proxyFor` says. */
class AgentWithProxies extends Dispatcher {
  readonly #direct: Agent;
  readonly #environment: Environment;
  readonly #proxied: Omit<ProxyAgent.Options, "uri">;
  readonly #proxies = new Map<string, ProxyAgent>();

  constructor(
    environment: Environment,
    direct: Agent.Options,
    proxied: Omit<ProxyAgent.Options, "uri">,
  ) {
    super();
    this.#direct = new Agent(direct);
    this.#environment = environment;
    this.#proxied = proxied;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const proxy = proxyFor(new URL(`${options.origin}`), this.#environment);
    const dispatcher = proxy === undefined ? this.#direct : this.#through(proxy);
    return dispatcher.dispatch(options as Agent.DispatchOptions, handler);
  }

  #through(proxy: URL): ProxyAgent {
    const known = this.#proxies.get(proxy.href);
    if (known) return known;
    const token = basicCredentials(proxy);
    const made = new ProxyAgent({ ...this.#proxied, uri: proxy.origin, ...(token && { token }) });
    this.#proxies.set(proxy.href, made);
    return made;
  }

  override async close(): Promise<void> {
    await Promise.all([this.#direct, ...this.#proxies.values()].map((each) => each.close()));
  }

  override async destroy(): Promise<void> {
    await Promise.all([this.#direct, ...this.#proxies.values()].map((each) => each.destroy()));
  }
}

/**
 * Requests a file and follows redirects, so that the token is sent to its own origin only.
 *
 * @param dispatcher a dispatcher, or a function that gets the address and each one that it
 *   redirects to.
 * @throws Error of the network, of too many redirects, or of a redirect from https to http.
 */
export async function requestRemoteFile(
  query: RemoteRequest,
  dispatcher: Dispatcher | DispatcherFor,
  signal?: AbortSignal,
): Promise<RemoteResponse> {
  const { origin } = new URL(query.url);
  let url = new URL(query.url);
  let linked: Pick<RemoteResponse, "linkedSha256" | "linkedBytes"> = {};
  for (let hop = 0; hop <= limits.maxRedirects; hop++) {
    const isFirstHost = url.origin === origin;
    const headers: Record<string, string> = { "accept-encoding": "identity", ...query.headers };
    if (query.token !== undefined && isFirstHost) headers.authorization = `Bearer ${query.token}`;
    const answer = await request(url, {
      ...{ method: "GET", headers, signal, highWaterMark: maxBodyBufferBytes },
      dispatcher: typeof dispatcher === "function" ? dispatcher(url) : dispatcher,
    });
    if (isFirstHost) linked = { ...linked, ...linkedFile(answer.headers) };
    const location = headerValue(answer.headers.location);
    if (![301, 302, 303, 307, 308].includes(answer.statusCode) || location === undefined) {
      const { statusCode: status, headers: received, body } = answer;
      // The reader of the body sees its errors. Without this listener, the error of a body that
      // nobody reads would end the process.
      body.on("error", () => {});
      return { status, headers: received, body, url: url.href, isFirstHost, ...linked };
    }
    await answer.body.dump();
    const next = new URL(location, url);
    if (url.protocol === "https:" && next.protocol !== "https:") {
      throw new Error(`redirected from https to ${next.protocol}//${next.host}`);
    }
    url = next;
  }
  throw new Error(`redirected more than ${limits.maxRedirects} times`);
}

/**
 * Calls `onChunk` for each chunk of the body and never pauses it: undici 7 ends the process if a
 * server closes the connection while a reader makes it wait.
 *
 * @throws what `onChunk` throws, or the network's error.
 */
export function readBody(
  { body }: RemoteResponse,
  onChunk: (chunk: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    body.on("error", reject);
    body.on("end", resolve);
    body.on("close", () => reject(new Error("the connection was closed")));
    body.on("data", (chunk: Buffer) => {
      try {
        onChunk(chunk);
      } catch (error) {
        reject(error);
        body.destroy();
      }
    });
  });
}

/** The hub names a file's SHA-256 and size in the response that redirects to the content. */
function linkedFile(headers: RemoteResponse["headers"]): Partial<RemoteResponse> {
  const tag = /^"?([0-9a-f]{64})"?$/.exec(headerValue(headers["x-linked-etag"]) ?? "");
  const bytes = Number(headerValue(headers["x-linked-size"]) ?? Number.NaN);
  return {
    ...(tag ? { linkedSha256: tag[1]! } : {}),
    ...(Number.isSafeInteger(bytes) ? { linkedBytes: bytes } : {}),
  };
}

/** A header's value, the first one if there are several. */
export function headerValue(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** A network error in a few words: its message and code, without credentials in addresses. */
export function networkReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  const inner =
    error instanceof AggregateError ? (error.errors[0] as Error | undefined) : undefined;
  const text = error.message || inner?.message || error.name;
  const reason = code !== undefined && !text.includes(code) ? `${text} (${code})` : text;
  return reason.replaceAll(/\/\/[^/@\s]*@/g, "//");
}
