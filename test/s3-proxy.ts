import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a proxy does with one request. */
export type ProxyFault =
  /** It is carried out, and the connection broken off before any reply. */
  | "lose-reply"
  /** The connection is broken off, and nothing carried out. */
  | "reset"
  | "slow-down"
  | "server-error"
  /** Another conditional write is under way. */
  | "conflict"
  /** Half of the reply comes. */
  | "torn-reply"
  /** The first bytes of what is read come, and nothing is written; the connection stays. */
  | "stall";

/** What is known of a request when its fault is drawn. */
export interface ProxiedRequest {
  method: string;
  /** Path and query. */
  url: string;
  isConditional: boolean;
}

export interface S3ProxyOptions {
  /** Address of the server behind it. */
  server: string;
  fault?(request: ProxiedRequest): ProxyFault | undefined;
  /** Refuses every request, as a service does whose credentials or clock differ. */
  refusal?: readonly [status: number, code: string];
  /** Tags are written without quotes, but to GET, and a condition knows only those with quotes. */
  hasBareTags?: boolean;
  /** Added to each request. */
  latencyMs?: number;
}

const refusals: Partial<Record<ProxyFault, [status: number, code: string]>> = {
  "slow-down": [503, "SlowDown"],
  "server-error": [500, "InternalError"],
  conflict: [409, "ConditionalRequestConflict"],
};

/** A proxy before an S3 server, with the faults that networks and large stores have. */
export class S3Proxy {
  readonly address: string;
  /** Requests so far, and the faults among them. */
  requests = 0;
  readonly faults = new Map<ProxyFault, number>();
  readonly #server: ReturnType<typeof createServer>;

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(options: S3ProxyOptions): Promise<S3Proxy> {
    const server = createServer((from, to) => {
      proxy.requests++;
      const { method = "", url = "" } = from;
      const isConditional = from.headers["if-none-match"] !== undefined;
      const fault = options.fault?.({ method, url, isConditional });
      if (fault) proxy.faults.set(fault, (proxy.faults.get(fault) ?? 0) + 1);
      if (options.refusal) return refuse(from, to, ...options.refusal);
      if (options.hasBareTags && from.headers["if-match"]?.startsWith('"') === false) {
        return refuse(from, to, 412, "PreconditionFailed");
      }
      setTimeout(() => pass(from, to, options, fault), options.latencyMs ?? 0);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new S3Proxy(server);
    return proxy;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

function pass(
  from: IncomingMessage,
  to: ServerResponse,
  { server, hasBareTags = false }: S3ProxyOptions,
  fault: ProxyFault | undefined,
): void {
  if (fault === "reset") return void from.socket.destroy();
  if (fault === "stall" && /^P/.test(from.method!)) return void from.resume();
  const refusal = fault && refusals[fault];
  if (refusal) return refuse(from, to, ...refusal);
  const target = new URL(server);
  // The host that was signed goes on, as it would through a tunnel.
  const onward = request({
    host: target.hostname,
    port: target.port,
    method: from.method,
    path: from.url,
    headers: from.headers,
  });
  onward.on("continue", () => to.writeContinue());
  onward.on("error", () => from.socket.destroy());
  onward.on("response", (reply) => {
    if (fault === "lose-reply") {
      reply.resume();
      return void reply.once("end", () => from.socket.destroy());
    }
    const { etag } = reply.headers;
    if (hasBareTags && etag && from.method !== "GET") reply.headers.etag = etag.replaceAll('"', "");
    to.writeHead(reply.statusCode!, reply.headers);
    if (fault === "stall") return void reply.once("data", (chunk: Buffer) => to.write(chunk));
    if (fault !== "torn-reply") return void reply.pipe(to);
    reply.once("data", (chunk: Buffer) => {
      to.write(chunk.subarray(0, chunk.length >> 1), () => from.socket.destroy());
    });
    reply.once("end", () => from.socket.destroy());
  });
  from.pipe(onward);
}

function refuse(from: IncomingMessage, to: ServerResponse, status: number, code: string): void {
  from.resume();
  from.once("end", () => {
    to.writeHead(status, { "content-type": "application/xml" });
    to.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>drawn</Message></Error>`);
  });
}
