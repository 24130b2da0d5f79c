import type { InferenceRequest, InferenceResponse, Usage } from "../../foundation/inference.ts";
import {
  isSampled,
  type Span,
  type Telemetry,
  type TraceContext,
} from "../../foundation/telemetry.ts";
import {
  firstPieceAttributes,
  requestAttributes,
  requestSpanName,
  responseAttributes,
} from "../gen-ai-attributes.ts";
import type { ReplySink } from "./transport.ts";

interface CallSpanOptions {
  telemetry: Telemetry | undefined;
  /** The model's name on the server, and the server's address. */
  model: string;
  address: URL;
  now(): number;
}

/** The span of one try of a call, and the headers that carry it to the server. */
export class CallSpan {
  readonly headers: Readonly<Record<string, string>>;
  readonly #span: Span | undefined;
  readonly #now: () => number;
  readonly #startMs: number;

  /** @param requests what the call is for; the first of them that is recorded is its parent. */
  constructor(
    requests: readonly InferenceRequest[],
    { telemetry, model, address, now }: CallSpanOptions,
  ) {
    const traces = requests.flatMap(({ trace }) => trace ?? []);
    const parent = traces.find(isSampled) ?? traces[0];
    this.#now = now;
    this.#startMs = now();
    this.#span =
      telemetry && parent && isSampled(parent)
        ? telemetry.start(requestSpanName(model, requests[0]!), {
            ...{ kind: "client", parent },
            ...(requests.length > 1 && { links: traces }),
            attributes: {
              ...requestAttributes("openai", model, requests[0]!),
              "server.address": address.hostname,
              "server.port": Number(address.port) || (address.protocol === "https:" ? 443 : 80),
            },
          })
        : undefined;
    const context = telemetry?.propagates === false ? undefined : (this.#span?.context ?? parent);
    this.headers = { ...context } satisfies Partial<TraceContext> as Record<string, string>;
  }

  /** Calls a function with the span as the active one. */
  run<T>(action: () => T): T {
    return this.#span ? this.#span.run(action) : action();
  }

  /** The same sink; tells when the first part of an answer came. */
  watched(sink: ReplySink | undefined): ReplySink | undefined {
    const span = this.#span;
    if (!span || !sink) return sink;
    let hasBegun = false;
    return {
      add: (chunk) => {
        if (!hasBegun) span.set(firstPieceAttributes((this.#now() - this.#startMs) / 1000));
        hasBegun = true;
        sink.add(chunk);
      },
      end: (headers) => sink.end(headers),
    };
  }

  replied(status: number): void {
    this.#span?.set({ "http.response.status_code": status });
    if (status >= 400) this.#span?.fail(String(status));
  }

  answered({ usage, answers }: { usage: Usage; answers?: InferenceResponse["answers"] }): void {
    this.#span?.set(responseAttributes({ usage, ...(answers && { answers }) }));
    this.#span?.end();
  }

  /** @param code undefined if the try does not count, as when a server is busy. */
  failed(code: string | undefined): void {
    if (code !== undefined) this.#span?.fail(code);
    this.#span?.end();
  }
}
