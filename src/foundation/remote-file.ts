import type { LookupFunction } from "node:net";
import { Agent, type Dispatcher, EnvHttpProxyAgent, request } from "undici";
import { connectorWithoutInterim } from "./interim-replies.ts";
import { limits } from "./limits.ts";
import { tunnelOptions } from "./proxy-tunnel.ts";

/** Bytes of a body that are taken before who reads it is waited for. */
const maxBodyBufferBytes = 16 * 1024 * 1024;

/** A file on a server, as the server answered for it. */
export interface RemoteAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: Dispatcher.ResponseData["body"];
  /** The address that gave this answer, after all redirects. */
  url: string;
  /** True when the address that was asked first gave this answer, not one it redirected to. */
  isFirstHost: boolean;
  /** What the hub says the file's content is, if it said so. */
  linkedSha256?: string;
  linkedBytes?: number;
}

/** What is asked of a server. */
export interface RemoteQuery {
  url: string;
  /** Sent as a bearer token to the origin of `url`, never to another one. */
  token?: string;
  headers?: Readonly<Record<string, string>>;
}

/** How a server is asked: how long it may take, and how many connections it gets. */
export interface RemoteTimes {
  connectTimeoutMs: number;
  /** Longest time without a byte. */
  stallTimeoutMs: number;
  /** To one server; default: as many as are needed. */
  connections?: number;
  /** How names of servers are looked up; proxies look up by themselves. Default: as Node does. */
  lookup?: LookupFunction;
}

/** What asks the server of an address; it may throw for one that must not be asked. */
export type DispatcherFor = (url: URL) => Dispatcher;

/** A dispatcher for downloads, through the proxies that the environment names. */
export function downloadDispatcher(
  environment: Readonly<Record<string, string | undefined>>,
  { connectTimeoutMs, stallTimeoutMs, connections, lookup }: RemoteTimes,
): Dispatcher {
  const options = {
    connect: connectorWithoutInterim({ timeout: connectTimeoutMs, ...(lookup && { lookup }) }),
    headersTimeout: stallTimeoutMs,
    bodyTimeout: stallTimeoutMs,
    ...(connections !== undefined && { connections }),
  };
  const value = (name: string) => environment[name.toLowerCase()] || environment[name] || "";
  const httpProxy = value("HTTP_PROXY");
  const httpsProxy = value("HTTPS_PROXY");
  if (!httpProxy && !httpsProxy) return new Agent(options);
  const noProxy = value("NO_PROXY");
  // Many a proxy makes tunnels for https only.
  const proxied = { proxyTunnel: false, ...tunnelOptions(connectTimeoutMs) };
  return new EnvHttpProxyAgent({ ...options, ...proxied, httpProxy, httpsProxy, noProxy });
}

/**
 * Asks for a file and follows redirects by hand, so that the token stays with the host it is for.
 *
 * @param dispatcher what asks, or what tells it of the address and of each that it redirects to.
 * @throws Error of the network; the message of `TooManyRedirects` and `InsecureRedirect` says so.
 */
export async function askRemote(
  query: RemoteQuery,
  dispatcher: Dispatcher | DispatcherFor,
  signal?: AbortSignal,
): Promise<RemoteAnswer> {
  const { origin } = new URL(query.url);
  let url = new URL(query.url);
  let linked: Pick<RemoteAnswer, "linkedSha256" | "linkedBytes"> = {};
  for (let hop = 0; hop <= limits.maxRedirects; hop++) {
    const isFirstHost = url.origin === origin;
    const headers: Record<string, string> = { "accept-encoding": "identity", ...query.headers };
    if (query.token !== undefined && isFirstHost) headers.authorization = `Bearer ${query.token}`;
    const answer = await request(url, {
      ...{ method: "GET", headers, signal, highWaterMark: maxBodyBufferBytes },
      dispatcher: typeof dispatcher === "function" ? dispatcher(url) : dispatcher,
    });
    if (isFirstHost) linked = { ...linked, ...linkedFile(answer.headers) };
    const location = single(answer.headers.location);
    if (![301, 302, 303, 307, 308].includes(answer.statusCode) || location === undefined) {
      const { statusCode: status, headers: received, body } = answer;
      // Who reads it meets its failure; one that nobody reads to its end would end the process.
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
 * Hands a body over as it comes. Undici 7 ends the process where a server closes the connection
 * while it waits for who reads: so nothing here ever waits.
 *
 * @throws what `onChunk` throws, or the network's error.
 */
export function readBody({ body }: RemoteAnswer, onChunk: (chunk: Buffer) => void): Promise<void> {
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

/** The hub names a file's sha256 and size on the redirect to where the bytes lie. */
function linkedFile(headers: RemoteAnswer["headers"]): Partial<RemoteAnswer> {
  const tag = /^"?([0-9a-f]{64})"?$/.exec(single(headers["x-linked-etag"]) ?? "");
  const bytes = Number(single(headers["x-linked-size"]) ?? Number.NaN);
  return {
    ...(tag ? { linkedSha256: tag[1]! } : {}),
    ...(Number.isSafeInteger(bytes) ? { linkedBytes: bytes } : {}),
  };
}

/** The only value of a header. */
export function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** A network error in a few words: its code where it has one, without credentials of addresses. */
export function networkReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  const inner =
    error instanceof AggregateError ? (error.errors[0] as Error | undefined) : undefined;
  const text = error.message || inner?.message || error.name;
  const reason = code !== undefined && !text.includes(code) ? `${text} (${code})` : text;
  return reason.replaceAll(/\/\/[^/@\s]*@/g, "//");
}
