/**
 * The place of a span in its trace, as the headers of W3C Trace Context carry it from process to
 * process.
 */
export interface TraceContext {
  traceparent: string;
  tracestate?: string;
}

export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

export interface SpanStart {
  /** Default `internal`. */
  kind?: "internal" | "server" | "client";
  /** Default: it begins a trace. */
  parent?: TraceContext | undefined;
  /** Other spans that it belongs to, such as the requests of a batch. */
  links?: readonly TraceContext[];
  attributes?: SpanAttributes;
  /** When it began, in milliseconds since 1970; default: now. */
  startedAt?: number | undefined;
  /** Its id, as 16 hex digits, if another process must know it. Default: a random one. */
  id?: string | undefined;
}

/** A piece of work with its times and attributes. It never holds prompts, answers or keys. */
export interface Span {
  /** Where spans below it belong, here or in another process. */
  readonly context: TraceContext;
  set(attributes: SpanAttributes): void;
  /** Calls a function with this span as the active one, for HTTP clients that others trace. */
  run<T>(action: () => T): T;
  /** Marks it as failed, by the code of an error. */
  fail(code: string): void;
  /** @param endedAt in milliseconds since 1970; default: now. */
  end(endedAt?: number): void;
}

/** Where the spans of a process go. */
export interface Telemetry {
  /** Whether it takes the ids that a start names. */
  readonly takesIds: boolean;
  /** Whether requests are sent with trace contexts: not where others instrument the client. */
  readonly propagates: boolean;
  start(name: string, start?: SpanStart): Span;
  /** The span in which code of the user calls Sluice; undefined if there is none. */
  active(): TraceContext | undefined;
  /** The parent of a request's span, by its headers; undefined if there is none. */
  received(traceparent: unknown, tracestate: unknown): TraceContext | undefined;
  /** Exports what has ended, for as long as `limits.maxTelemetryFlushMs`. */
  close(): Promise<void>;
}

const traceparentForm = /^[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}/;
const maxTracestateCharacters = 512;

/**
 * The trace context of a request's headers, or of variables with such names; undefined if there is
 * none, or a malformed one.
 */
export function traceContextOf(
  traceparent: unknown,
  tracestate: unknown,
): TraceContext | undefined {
  if (typeof traceparent !== "string" || !traceparentForm.test(traceparent)) return undefined;
  const isState = typeof tracestate === "string" && tracestate.length <= maxTracestateCharacters;
  return { traceparent, ...(isState && tracestate !== "" && { tracestate }) };
}

/** Whether spans of a trace are recorded. */
export function isSampled({ traceparent }: TraceContext): boolean {
  return (Number.parseInt(traceparent.slice(53, 55), 16) & 1) === 1;
}

/** The same place in the trace, for work that is not recorded. */
export function unsampled(context: TraceContext): TraceContext {
  return { ...context, traceparent: `${context.traceparent.slice(0, 53)}00` };
}

/** Another span of the same trace, by its id. */
export function besideIn(context: TraceContext, spanId: string): TraceContext {
  const { traceparent } = context;
  return { ...context, traceparent: traceparent.slice(0, 36) + spanId + traceparent.slice(52) };
}
