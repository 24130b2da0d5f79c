import type { AddressInfo, Socket } from "node:net";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Clock } from "../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import { randomUuid } from "../foundation/ids.ts";
import { isDeeperThan, type Json } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import type { Random } from "../foundation/random.ts";
import { ClientExchanges } from "./client-exchanges.ts";
import type { Scope, ServeOptions } from "./options.ts";
import type { Caller, Tokens } from "./tokens.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set for every request that is let in. */
    caller: Caller;
    /** Aborted when the client has left, or when the time of the request is over. */
    gone: AbortSignal;
    /** Of a row of a batch: aborted when it may not wait for its model any more. */
    shut: AbortSignal | undefined;
  }
  interface FastifyContextConfig {
    /** Whether the route reads forms piece by piece, and watches their arrival itself. */
    readsForms?: boolean;
  }
}

/** How one of the server's wires writes an error. */
export type WriteError = (error: SluiceError, reply: FastifyReply, request: FastifyRequest) => void;

export interface ListenerOptions {
  limits: ServeOptions["limits"];
  tls: { certificate: string; key: string } | undefined;
  clock: Clock;
  random: Random;
  /** The writer of errors outside of every wire, such as those of broken HTTP. */
  writeError: WriteError;
  onAnswered(facts: RequestFacts): void;
  /** Called with those of a request whose answer was not sent. */
  onCut?(facts: RequestFacts): void;
}

/** What the access log and the metrics know of a request: no word of prompts or keys. */
export interface RequestFacts {
  method: string;
  /** The path, without its query. */
  path: string;
  /** The route, as `/v1/files/:id`; `unknown` where there is none. */
  route: string;
  status: number;
  caller: string;
  durationMs: number;
  requestId: string;
}

/** How often connections are looked through for those that send too slowly. */
const slowSenderCheckMs = 1000;

/** Replies to requests that exceed a limit before they are whole, by Node's codes. */
const statusOfBroken: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

const maxWaitHeader = "x-sluice-max-wait-ms";

/**
 * An HTTP server with the limits of its file: sizes, times and connections. Bodies of JSON are
 * parsed, and an empty one counts as none, because clients of OpenAI send such with DELETE.
 */
export function openListener(options: ListenerOptions): FastifyInstance {
  const { limits: serveLimits, tls } = options;
  const exchanges = new ClientExchanges(serveLimits, options.clock);
  const begin = (request: FastifyRequest, reply: FastifyReply) =>
    beginExchange(request, reply, exchanges, options);
  const bounds = {
    maxHeaderSize: serveLimits.maxHeaderBytes,
    headersTimeout: serveLimits.requestArrivalTimeoutMs,
    connectionsCheckingInterval: slowSenderCheckMs,
  };
  const server = Fastify({
    bodyLimit: serveLimits.maxBodyBytes,
    // Node would cut uploads too.
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: serveLimits.idleConnectionTimeoutMs,
    forceCloseConnections: "idle",
    // The refusal of the library has the form of no wire. Models refuse what may not begin.
    return503OnClosing: false,
    // Paths that are broken or too long, which reach neither hooks nor the handler of errors.
    frameworkErrors(error: unknown, request: FastifyRequest, reply: FastifyReply) {
      begin(request, reply);
      options.writeError(namedError(error), reply, request);
    },
    genReqId: () => randomUuid(options.random),
    logger: false,
    // Errors before a request is whole: slow or broken ones.
    clientErrorHandler({ code = "" }: NodeJS.ErrnoException, socket: Socket) {
      const status = statusOfBroken[code] ?? "400 Bad Request";
      if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`);
    },
    routerOptions: { maxParamLength: 256 },
    ...(tls ? { https: { cert: tls.certificate, key: tls.key, ...bounds } } : { http: bounds }),
  } as object) as unknown as FastifyInstance;
  server.server.maxConnections = serveLimits.maxConnections;
  server.decorateRequest("caller");
  server.decorateRequest("gone");
  server.decorateRequest("shut");
  server.removeContentTypeParser("application/json");
  server.addContentTypeParser("application/json", { parseAs: "string" }, (_request, body, done) => {
    try {
      done(null, body === "" ? undefined : jsonOf(body as string));
    } catch (error) {
      done(error as SluiceError);
    }
  });
  server.setErrorHandler((error, request, reply) => {
    if (!reply.sent) options.writeError(namedError(error), reply, request);
  });
  server.setNotFoundHandler((request, reply) =>
    options.writeError(
      new SluiceError("ROUTE_UNKNOWN", `${request.method} ${request.url}`),
      reply,
      request,
    ),
  );
  // Hooks call back: promises of them would be a tenth of the time of a request without work.
  server.addHook("onRequest", (request, reply, done) => {
    begin(request, reply);
    done();
  });
  server.addHook("onClose", async () => exchanges.close());
  return server;
}

/** Gives a request its id and its signal, and tells of its end. */
function beginExchange(
  request: FastifyRequest,
  reply: FastifyReply,
  exchanges: ClientExchanges,
  { onAnswered, onCut }: ListenerOptions,
): void {
  const mustArrive = !isForm(request) || !request.routeOptions.config.readsForms;
  request.gone = exchanges.begin(request.raw, reply.raw, mustArrive, (durationMs, cut) => {
    const facts = {
      method: request.method,
      path: pathOf(request.url),
      route: request.routeOptions.url ?? "unknown",
      status: cut ?? reply.statusCode,
      caller: request.caller?.name ?? "",
      durationMs,
      requestId: request.id,
    };
    if (cut === undefined) onAnswered(facts);
    else onCut?.(facts);
  });
  void reply.header("x-request-id", request.id);
}

/**
 * Longest wait for the model that the caller accepts, in milliseconds; undefined for the server's.
 *
 * @throws SluiceError `PARAMETER_INVALID`.
 */
export function maxWaitMsOf({ headers }: FastifyRequest): number | undefined {
  const given = headers[maxWaitHeader];
  if (given === undefined) return undefined;
  const maxWaitMs = Number(given);
  if (maxWaitMs >= 0) return maxWaitMs;
  throw new SluiceError("PARAMETER_INVALID", "it must be milliseconds", { field: maxWaitHeader });
}

/** @throws SluiceError `REQUEST_INVALID`. */
function jsonOf(text: string): Json {
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new SluiceError("REQUEST_INVALID", `the body is not JSON: ${(error as Error).message}`);
  }
  assertShallow(value);
  return value;
}

/** @throws SluiceError `REQUEST_INVALID` for JSON that nests deeper than the limit. */
export function assertShallow(value: Json): void {
  if (!isDeeperThan(limits.maxRequestDepth, value)) return;
  const message = `the body nests deeper than ${limits.maxRequestDepth} levels`;
  throw new SluiceError("REQUEST_INVALID", message);
}

/** Lets in only requests whose token has the scope; without tokens, all but those of pages. */
export function guard(server: FastifyInstance, tokens: Tokens, scope: Scope): void {
  server.addHook("onRequest", (request, _reply, done) => {
    request.caller = tokens.callerOf(request.headers, scope, request.ip);
    done();
  });
}

/**
 * @returns the address that it listens on: with port 0, the system chooses one.
 * @throws SluiceError `LISTEN_FAILED`.
 */
export async function listen(server: FastifyInstance, address: string): Promise<string> {
  const { host, port } = hostAndPort(address);
  try {
    // By its name, the library opens a second server on ::1, to which no limit applies.
    await server.listen({ host: host === "localhost" ? "127.0.0.1" : host, port });
  } catch (error) {
    throw new SluiceError("LISTEN_FAILED", `${address}: ${(error as Error).message}`);
  }
  const bound = server.server.address() as AddressInfo;
  return `${bound.family === "IPv6" ? `[${bound.address}]` : bound.address}:${bound.port}`;
}

/** Whether other machines can reach an address. */
export function isPublic(address: string): boolean {
  const { host } = hostAndPort(address);
  return !/^(localhost|127(\.\d+){3}|::1)$/i.test(host);
}

function hostAndPort(address: string): { host: string; port: number } {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  return { host, port: Number(address.slice(at + 1)) };
}

const isForm = ({ headers }: FastifyRequest) =>
  headers["content-type"]?.startsWith("multipart/") === true;

/** Any error of the HTTP library, by its name in Sluice. */
export function namedError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const {
    statusCode,
    code = "",
    message,
  } = error as Error & { statusCode?: number; code?: string };
  if (statusCode === 413) return new SluiceError("BODY_TOO_LARGE", message);
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new SluiceError("REQUEST_INVALID", "its header must say content-type: application/json");
  }
  if (code.startsWith("FST_") && statusCode !== undefined && statusCode < 500) {
    return new SluiceError("REQUEST_INVALID", message);
  }
  return asSluiceError(error);
}

function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end === -1 ? url : url.slice(0, end);
}
