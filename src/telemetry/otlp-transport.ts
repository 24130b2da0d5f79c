import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { ExportResponse, IExporterTransport } from "@opentelemetry/otlp-exporter-base";
import type { convertLegacyHttpOptions } from "@opentelemetry/otlp-exporter-base/node-http";
import { backoffMs, demandedWaitMs } from "../foundation/backoff.ts";
import { type Clock, sleep } from "../foundation/clock.ts";
import type { Random } from "../foundation/random.ts";

/** Where and how spans are sent, as OpenTelemetry's variables say. */
export type OtlpSettings = ReturnType<typeof convertLegacyHttpOptions>;

const maxTries = 5;
const wait = { baseMs: 1000, maxMs: 5000 };
const maxReplyBytes = 4 * 1024 * 1024;
const passingStatuses = new Set([429, 502, 503, 504]);
const compress = promisify(gzip);

/**
 * Sends spans over HTTP. OpenTelemetry's own transport would keep a process that ends alive until
 * its last try is over; this one can be told to hurry, and to give up.
 */
export class OtlpTransport implements IExporterTransport {
  readonly #settings: OtlpSettings;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #hurry = new AbortController();
  readonly #end = new AbortController();
  #agent: Agent | undefined;

  constructor(settings: OtlpSettings, clock: Clock, random: Random) {
    this.#settings = settings;
    this.#clock = clock;
    this.#random = random;
  }

  /** From now on, each export is tried once. */
  hurry(): void {
    this.#hurry.abort();
  }

  /** Ends what is still being sent. */
  shutdown(): void {
    this.#hurry.abort();
    this.#end.abort();
    this.#agent?.destroy();
  }

  async send(data: Uint8Array, timeoutMs: number): Promise<ExportResponse> {
    const { url, headers, compression, agentFactory } = this.#settings;
    const { protocol } = new URL(url);
    const isPlain = protocol === "http:";
    const { request } = await (isPlain ? import("node:http") : import("node:https"));
    this.#agent ??= (await agentFactory(protocol)) as Agent;
    const body = compression === "gzip" ? await compress(data) : data;
    const options = {
      method: "POST",
      agent: this.#agent,
      headers: {
        ...(await headers()),
        ...(compression === "gzip" && { "content-encoding": "gzip" }),
        "content-length": body.length,
      },
    };
    const late = new AbortController();
    const cancel = this.#clock.schedule(timeoutMs, () => late.abort());
    const signal = AbortSignal.any([late.signal, this.#end.signal]);
    const start = () => request(url, { ...options, signal } as RequestOptions);
    try {
      return await this.#sendUntil(start, body, AbortSignal.any([signal, this.#hurry.signal]));
    } finally {
      cancel();
    }
  }

  /** @param isOver aborted when there is no time for another try. */
  async #sendUntil(
    start: () => ClientRequest,
    body: Uint8Array,
    isOver: AbortSignal,
  ): Promise<ExportResponse> {
    for (let tries = 1; ; tries++) {
      const response = await sent(start(), body, this.#clock.now());
      if (response.status !== "retryable" || tries === maxTries) return response;
      const delayMs = backoffMs(tries, this.#random, wait, response.retryInMillis);
      try {
        await sleep(this.#clock, delayMs, isOver);
      } catch {
        return response;
      }
    }
  }
}

/** Never rejects: a failure is a response. */
function sent(request: ClientRequest, body: Uint8Array, nowMs: number): Promise<ExportResponse> {
  return new Promise((resolve) => {
    request.on("error", (error) => resolve({ status: "retryable", error }));
    request.on("response", (reply) => {
      void read(reply).then(
        (data) => resolve(responseOf(reply, data, nowMs)),
        (error: Error) => resolve({ status: "retryable", error }),
      );
    });
    request.end(body);
  });
}

async function read(reply: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxReplyBytes) throw new Error(`its reply has more than ${maxReplyBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function responseOf(
  { statusCode = 0, headers }: IncomingMessage,
  data: Buffer,
  nowMs: number,
): ExportResponse {
  if (statusCode >= 200 && statusCode < 300) return { status: "success", data };
  const error = new Error(`it answered ${statusCode}`);
  if (!passingStatuses.has(statusCode)) return { status: "failure", error };
  const retryInMillis = demandedWaitMs(headers, nowMs);
  return { status: "retryable", error, ...(retryInMillis !== undefined && { retryInMillis }) };
}
