import type { SecureContext } from "node:tls";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { textHash } from "../../foundation/hashing.ts";
import type { InferenceRequest, Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { AbortWatch } from "../abort-watch.ts";
import type { EngineContext } from "../engine.ts";
import { EndpointBreaker, type EndpointFailure } from "./breaker.ts";
import type { Call, Form } from "./call.ts";
import { CallSpan } from "./call-span.ts";
import { FailureReader } from "./failures.ts";
import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";
import { type Admission, type AdmissionEnd, openPace, type Pace } from "./pace/pace.ts";
import type { ReplyMemory } from "./reply-memory.ts";
import type { RoutedEndpoint } from "./routing/router.ts";
import type { ServerAccess } from "./server-access.ts";
import { type HttpReply, type RequestBody, Transport, TransportError } from "./transport.ts";
import { isOpenaiItself } from "./unsupported.ts";

/** After this number of failures in a row, one of several servers counts as ill. */
const maxEndpointFailures = 5;

/** Longest wait of a request that an endpoint refused while it answered others. */
const maxMomentaryWaitMs = 1000;

/** The outcome of sending to an endpoint. */
export type Outcome<T> =
  | { of: "answer"; value: T }
  /** The request failed, or the endpoint possibly because of the request. */
  | { of: "request"; error: SluiceError; endpoint: Endpoint }
  /**
   * The request does not count as sent. `down`: the endpoint cannot be used now, nor later.
   * `waitMs`: the endpoint refused this very request, which must wait.
   */
  | { of: "endpoint"; down: SluiceError | undefined; waitMs?: number };

/** Permission to send one request. */
export interface SendPermit {
  endpoint: Endpoint;
  admission: Admission;
  /** The endpoint is paused, and this request probes it. */
  isProbe: boolean;
}

/** What an endpoint takes from its engine. */
export interface EndpointContext extends EngineContext {
  /** Model options that all endpoints share. */
  options: OpenaiModelOptions;
  /** How it is reached. */
  server: ServerAccess;
  /** Requests at once; undefined: found automatically. */
  maxInFlight: number | undefined;
  secureContext: SecureContext | undefined;
  /** Addresses of all endpoints, for messages. */
  addresses: string;
  /** Keys and passwords of all endpoints, which messages must not contain. */
  secrets: readonly string[];
  /** Listens on the signals of requests, once for all endpoints. */
  watch: AbortWatch;
  /** Bytes of replies at once, of all endpoints. */
  replyMemory: ReplyMemory;
  beside: EndpointsBeside;
}

/** What an endpoint knows of the others, and reports of itself. */
export interface EndpointsBeside {
  /** Since when no endpoint has answered; undefined while one does. */
  nothingAnswersSinceMs(): number | undefined;
  /** Whether another endpoint can be used now. */
  isOtherOpen(endpoint: Endpoint): boolean;
  /** Excludes an endpoint that refuses everything; false if it is the last. */
  takeOut(endpoint: Endpoint, error: SluiceError): boolean;
  /** The endpoint can be used again, or has more room than before. */
  onRoom(): void;
  /** No endpoint has answered for too long. */
  onDown(error: SluiceError): void;
}

/** Errors of a request that are probably the endpoint's fault. */
const endpointFaults: ReadonlySet<string> = new Set<ErrorCode>([
  "SERVER_ERROR",
  "TIMEOUT",
  "CONNECTION_LOST",
  "RESPONSE_MALFORMED",
]);

const nothingPaid = { promptTokens: 0, completionTokens: 0 };
const never = new AbortController().signal;

/** One server: its connections, its key, its pace, and its health. */
export class Endpoint implements RoutedEndpoint {
  /** Its address, for messages. */
  readonly address: string;
  readonly seed: number;
  readonly weight: number;
  readonly isOpenaiItself: boolean;
  readonly breaker: EndpointBreaker;
  readonly pace: Pace;
  /** It gets no requests for now, since it refused one for a reason that concerns all. */
  isExcluded = false;
  /** Its pause is over for one request, which has yet to come. */
  isProbeDue = false;
  readonly #context: EndpointContext;
  readonly #server: ServerAccess;
  readonly #paths: Readonly<Record<Form, string>>;
  readonly #failures: FailureReader;
  readonly #transport: Transport;
  readonly #redact = (text: string) => this.#failures.redact(text);
  /** Failures that may be its fault, since its last success. */
  #failuresInARow = 0;
  /** How often it was excluded since its last answer. */
  #exclusions = 0;
  #cancelReturn: (() => void) | undefined;

  constructor(own: EndpointOptions, context: EndpointContext) {
    const { clock, options, server, maxInFlight, secrets } = context;
    this.#context = context;
    this.#server = server;
    this.#paths = pathsOn(server);
    this.address = server.address;
    this.seed = textHash(this.address);
    this.weight = own.weight;
    this.isOpenaiItself = isOpenaiItself(own.baseUrl);
    // Online, `maxEndpointDownMs` is 0: nobody waits here, and the client gets the endpoint's
    // Retry-After, uncut by it.
    const maxWaitMs = options.maxEndpointDownMs || undefined;
    this.#failures = new FailureReader(secrets, clock.now, maxWaitMs);
    this.breaker = new EndpointBreaker({
      ...context,
      ...{ endpoint: this.address, endpoints: context.addresses },
      maxEndpointDownMs: options.maxEndpointDownMs,
      nothingAnswersSinceMs: () => context.beside.nothingAnswersSinceMs(),
      onProbeDue: () => this.#onPauseEnd(true),
      onOpen: () => this.#onPauseEnd(false),
      onDown: (error) => context.beside.onDown(error),
    });
    const { requestsPerMinute, tokensPerMinute } = options;
    this.pace = openPace({
      ...context,
      ...{ endpoint: this.address, maxInFlight, requestsPerMinute, tokensPerMinute },
      ...(this.isOpenaiItself ? {} : { readPage: (path: string) => this.#readPage(path) }),
    });
    this.#transport = new Transport({
      ...context,
      address: server.url,
      headers: server.headers,
      maxConnections: maxInFlight ?? limits.maxInFlight,
      timeoutMs: options.timeoutMs,
      maxResponseBytes: limits.maxResponseBytes,
    });
  }

  get inFlight(): number {
    return this.pace.inFlight;
  }

  /** It may be sent requests, as far as its pace has room. */
  get isOpen(): boolean {
    return !this.isExcluded && !this.breaker.isPaused;
  }

  /**
   * Sends one request and returns its outcome.
   *
   * @throws the signal's reason.
   */
  send<T extends { usage: Usage }>(
    call: Call<T>,
    permit: SendPermit,
    signal: AbortSignal,
  ): Promise<Outcome<T>> {
    if (call.traced) return this.#sendTraced(call, permit, signal, call.traced);
    const body = this.#bodyOf(call, permit);
    const replied = this.#transport.post(this.#paths[call.form], body, signal, call.sink?.());
    return this.#settled(replied, call, permit);
  }

  /** A row that no body can be made of, such as one with a slow pattern, gives its place back. */
  #bodyOf(call: Pick<Call<never>, "body">, permit: SendPermit): RequestBody {
    try {
      return call.body(this.isOpenaiItself);
    } catch (error) {
      this.release(permit);
      throw error;
    }
  }

  async #sendTraced<T extends { usage: Usage }>(
    call: Call<T>,
    permit: SendPermit,
    signal: AbortSignal,
    requests: readonly InferenceRequest[],
  ): Promise<Outcome<T>> {
    const { telemetry, options, clock } = this.#context;
    const facts = { telemetry, model: options.name, address: new URL(this.address) };
    const body = this.#bodyOf(call, permit);
    const span = new CallSpan(requests, { ...facts, now: () => clock.monotonic() });
    const sink = span.watched(call.sink?.());
    const path = this.#paths[call.form];
    try {
      const replied = span.run(() => this.#transport.post(path, body, signal, sink, span.headers));
      const noted = replied.then((reply) => {
        span.replied(reply.status);
        return reply;
      });
      const outcome = await this.#settled(noted, call, permit);
      if (outcome.of === "answer") span.answered(outcome.value);
      else span.failed((outcome.of === "request" ? outcome.error : outcome.down)?.code);
      return outcome;
    } catch (error) {
      span.failed(asSluiceError(error).code);
      throw error;
    }
  }

  #settled<T extends { usage: Usage }>(
    replied: Promise<HttpReply>,
    call: Call<T>,
    permit: SendPermit,
  ): Promise<Outcome<T>> {
    return replied.then(
      (reply) => {
        const isGood = reply.status >= 200 && reply.status < 300;
        return isGood ? this.#answered(call, reply, permit) : this.#refused(reply, permit, call);
      },
      (error: unknown) => {
        if (error instanceof TransportError) return this.#lost(error, permit);
        this.release(permit);
        throw error;
      },
    );
  }

  /** Returns an unused permission. */
  release({ admission, isProbe }: SendPermit): void {
    if (isProbe) this.breaker.abandon();
    admission.end({ outcome: "abandoned" });
  }

  /**
   * Excludes it for a growing time, after which one request tests it: somebody may have corrected
   * its key, quota or models.
   *
   * @returns the time.
   */
  exclude(): number {
    const { excludedEndpointMs, maxExcludedEndpointMs } = limits;
    const waitMs = Math.min(excludedEndpointMs * 2 ** this.#exclusions++, maxExcludedEndpointMs);
    this.isExcluded = true;
    this.breaker.refused();
    this.#cancelReturn = this.#context.clock.schedule(waitMs, () => {
      this.isExcluded = false;
      this.breaker.probe();
    });
    return waitMs;
  }

  async close(error: SluiceError): Promise<void> {
    this.#cancelReturn?.();
    this.pace.close();
    this.breaker.close();
    await this.#transport.close(error);
  }

  #answered<T extends { usage: Usage }>(
    call: Call<T>,
    reply: HttpReply,
    permit: SendPermit,
  ): Outcome<T> {
    const { headers } = reply;
    let value: T;
    try {
      value = call.read(reply, this.#redact);
    } catch (error) {
      if (error instanceof SluiceError) {
        const { promptTokens, completionTokens } = error.paid ?? nothingPaid;
        const end = { outcome: "answered", promptTokens, completionTokens, headers } as const;
        return this.#failed(error, permit, end);
      }
      this.release(permit);
      throw error;
    }
    this.#failuresInARow = 0;
    this.#exclusions = 0;
    this.breaker.reached(permit.isProbe);
    const { promptTokens, completionTokens } = value.usage;
    permit.admission.end({ outcome: "answered", promptTokens, completionTokens, headers });
    return { of: "answer", value };
  }

  #refused(
    reply: HttpReply,
    permit: SendPermit,
    { mayLackPath = false }: Pick<Call<never>, "mayLackPath">,
  ): Outcome<never> {
    const { status, headers } = reply;
    const failure = this.#failures.ofStatus(reply, mayLackPath);
    if (failure.of === "request") {
      const end: AdmissionEnd =
        status >= 500 ? { outcome: "failed" } : { outcome: "answered", ...nothingPaid, headers };
      return this.#failed(this.#withKeyHint(failure.error), permit, end);
    }
    const { retryAfterMs = 0 } = failure.failure;
    const end: AdmissionEnd = { outcome: "limited", retryAfterMs, headers };
    // One request too many, for the pace to handle, as long as others are answered.
    const isMomentary = !permit.isProbe && !this.breaker.isPaused && this.pace.isAnswering;
    if (isMomentary) {
      permit.admission.end(end);
      const waitMs = Math.min(retryAfterMs, maxMomentaryWaitMs);
      return { of: "endpoint", down: undefined, waitMs };
    }
    const paused = this.#pause(failure.failure, permit, end);
    if (this.#context.beside.isOtherOpen(this)) return paused;
    // It waits, so that another request finds out whether all have to wait.
    return { ...paused, waitMs: retryAfterMs };
  }

  #lost(error: TransportError, permit: SendPermit): Outcome<never> {
    const failure = this.#failures.ofTransport(error);
    const end: AdmissionEnd = { outcome: "failed" };
    if (failure.of === "endpoint") return this.#pause(failure.failure, permit, end);
    return this.#failed(failure.error, permit, end);
  }

  /** The request failed; if requests fail one after the other, the endpoint is ill. */
  #failed(error: SluiceError, permit: SendPermit, end: AdmissionEnd): Outcome<never> {
    const isOwnFault = endpointFaults.has(error.code);
    this.#failuresInARow = isOwnFault ? this.#failuresInARow + 1 : 0;
    const isIll = permit.isProbe || this.#failuresInARow >= maxEndpointFailures;
    // The last one stays in use, because the requests may be at fault.
    if (isOwnFault && isIll && this.#context.beside.isOtherOpen(this)) {
      return this.#pause({ message: error.message }, permit, end);
    }
    const isTakenOut = error.scope === "run" && this.#context.beside.takeOut(this, error);
    if (!isTakenOut) this.breaker.reached(permit.isProbe);
    permit.admission.end(end);
    if (isTakenOut) return { of: "endpoint", down: undefined };
    return { of: "request", error, endpoint: this };
  }

  // The breaker first: the end of an admission lets others in.
  #pause(
    failure: EndpointFailure,
    permit: SendPermit,
    end: AdmissionEnd,
  ): Outcome<never> & { of: "endpoint" } {
    const down = this.breaker.fail(failure, permit.isProbe);
    // Later requests, of online callers, learn of it at once instead of waiting.
    permit.admission.end(down ? { outcome: "abandoned" } : end);
    return { of: "endpoint", down };
  }

  #onPauseEnd(isProbeDue: boolean): void {
    this.isProbeDue = isProbeDue;
    this.#context.beside.onRoom();
  }

  #withKeyHint(error: SluiceError): SluiceError {
    if (error.code !== "AUTHENTICATION_FAILED") return error;
    return Object.assign(error, { hint: this.#server.keyHint });
  }

  /** A page beside the server's API: `/metrics` of `http://host/v1` is `http://host/metrics`. */
  async #readPage(path: string): Promise<string | undefined> {
    const base = this.#server.root.replace(/\/v1$/, "");
    const reply = await this.#transport.get(base + path, never).catch(() => undefined);
    return reply?.status === 200 ? reply.text : undefined;
  }
}

/** The server's place for each form of request. */
function pathsOn(server: ServerAccess): Readonly<Record<Form, string>> {
  return {
    chat: server.path("/chat/completions"),
    completion: server.path("/completions"),
    embedding: server.path("/embeddings"),
    transcription: server.path("/audio/transcriptions"),
    translation: server.path("/audio/translations"),
  };
}
