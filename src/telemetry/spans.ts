import { hasSubscribers } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  type ContextManager,
  defaultTextMapGetter,
  defaultTextMapSetter,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  type Span,
  type SpanAttributes,
  type SpanStart,
  type Telemetry,
  type TraceContext,
  traceContextOf,
} from "../foundation/telemetry.ts";

export interface TracerOptions {
  /** Whether trace contexts are read from requests and sent with them. */
  propagates: boolean;
  /** Gives the next span its id. Default: ids are random. */
  chooseId?(id: string): void;
  /** The contexts of the user's own program. */
  contexts?: ContextManager | undefined;
  close(): Promise<void>;
}

const kinds = { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT };
const propagator = new W3CTraceContextPropagator();

/** Spans by a tracer of OpenTelemetry. */
export class OtelTelemetry implements Telemetry {
  readonly #tracer: Tracer;
  readonly #options: TracerOptions;

  constructor(tracer: Tracer, options: TracerOptions) {
    this.#tracer = tracer;
    this.#options = options;
  }

  get takesIds(): boolean {
    return this.#options.chooseId !== undefined;
  }

  get propagates(): boolean {
    return this.#options.propagates && !hasSubscribers("undici:request:create");
  }

  received(traceparent: unknown, tracestate: unknown): TraceContext | undefined {
    if (!this.#options.propagates) return undefined;
    return this.active() ?? traceContextOf(traceparent, tracestate);
  }

  active(): TraceContext | undefined {
    const { contexts } = this.#options;
    return contexts && contextOf(contexts.active());
  }

  start(name: string, start: SpanStart = {}): Span {
    const { kind = "internal", parent, links = [], attributes, startedAt, id } = start;
    if (id !== undefined) this.#options.chooseId?.(id);
    const options = {
      kind: kinds[kind],
      attributes: attributes as Attributes,
      links: links.map((link) => ({ context: trace.getSpanContext(within(link))! })),
      ...(startedAt !== undefined && { startTime: startedAt }),
    };
    const span = this.#tracer.startSpan(name, options, within(parent));
    return new OtelSpanOf(span, this.#options.contexts);
  }

  close(): Promise<void> {
    return this.#options.close();
  }
}

class OtelSpanOf implements Span {
  readonly #span: OtelSpan;
  readonly #contexts: ContextManager | undefined;
  readonly context: TraceContext;

  constructor(span: OtelSpan, contexts: ContextManager | undefined) {
    this.#span = span;
    this.#contexts = contexts;
    this.context = contextOf(trace.setSpan(ROOT_CONTEXT, span))!;
  }

  run<T>(action: () => T): T {
    const contexts = this.#contexts;
    if (contexts === undefined) return action();
    return contexts.with(trace.setSpan(contexts.active(), this.#span), action);
  }

  set(attributes: SpanAttributes): void {
    this.#span.setAttributes(attributes as Attributes);
  }

  fail(code: string): void {
    this.#span.setAttribute("error.type", code);
    this.#span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(endedAt?: number): void {
    this.#span.end(endedAt);
  }
}

/** A context in which the span is active; without one, the root. */
function within(context: TraceContext | undefined): Context {
  if (context === undefined) return ROOT_CONTEXT;
  return propagator.extract(ROOT_CONTEXT, context, defaultTextMapGetter);
}

/** Undefined if no span is active. */
function contextOf(context: Context): TraceContext | undefined {
  const carrier: Record<string, string> = {};
  propagator.inject(context, carrier, defaultTextMapSetter);
  return carrier.traceparent === undefined ? undefined : (carrier as unknown as TraceContext);
}
