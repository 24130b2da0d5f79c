import { SluiceError } from "../../foundation/errors.ts";
import {
  type AnswerDelta,
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  type OnDelta,
} from "../../foundation/inference.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { FakeAnswers } from "./answers.ts";
import { type FakeFailureKind, FakeFaults } from "./faults.ts";
import type { FakeModelOptions } from "./options.ts";
import { RequestLog } from "./request-log.ts";

/**
 * Opens an engine that runs no model: answers, token counts, latencies and failures follow from its
 * seed and the requests. For trying jobs out and for testing everything around an engine.
 *
 * @throws SluiceError `JOB_INVALID` for a failure without a row or rate, `ENGINE_START_FAILED` if
 *   `countFile` cannot be opened.
 */
export function openFake(options: FakeModelOptions, context: EngineContext): Engine {
  return new FakeEngine(options, context);
}

class FakeEngine implements Engine {
  readonly name = "fake";
  readonly capacity: number;
  readonly #context: EngineContext;
  readonly #latencyMs: FakeModelOptions["latencyMs"];
  readonly #answers: FakeAnswers;
  readonly #faults: FakeFaults;
  readonly #requestLog: RequestLog | undefined;
  readonly #watch = new AbortWatch();
  /** Nothing can delay, fail or count a request: it is answered at once. */
  readonly #isInstant: boolean;
  readonly #running = new Set<Held>();
  /** Beyond capacity, in the order of arrival. */
  readonly #waiting = new Set<Held>();
  #closedBy: SluiceError | undefined;

  constructor(options: FakeModelOptions, context: EngineContext) {
    this.capacity = options.capacity;
    this.#context = context;
    this.#latencyMs = options.latencyMs;
    this.#answers = new FakeAnswers(options.seed);
    this.#faults = new FakeFaults(options);
    this.#requestLog =
      options.countFile === undefined ? undefined : new RequestLog(options.countFile);
    this.#isInstant =
      options.latencyMs === 0 &&
      options.failureRate === 0 &&
      options.failures.length === 0 &&
      this.#requestLog === undefined;
  }

  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#closedBy) return Promise.reject(this.#closedBy);
    if (!this.#isInstant || onDelta) return this.#hold(request, signal, onDelta);
    try {
      return Promise.resolve(this.#answers.respond(request, 0));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async close(): Promise<void> {
    if (this.#closedBy) return;
    this.#closedBy = new SluiceError("ENGINE_DIED", "it was closed");
    this.#rejectAll(this.#closedBy);
    this.#requestLog?.close();
  }

  #hold(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<InferenceResponse> {
    this.#requestLog?.record(request);
    const { promise, resolve, reject } = Promise.withResolvers<InferenceResponse>();
    const held: Held = {
      request,
      signal,
      failure: this.#faults.next(request),
      askedMs: this.#context.clock.monotonic(),
      cancelTimer: undefined,
      tell: onDelta,
      resolve,
      reject,
      abort: (reason) => {
        this.#release(held);
        reject(reason);
      },
    };
    this.#watch.add(signal, held);
    if (this.#running.size < this.capacity) this.#start(held);
    else this.#waiting.add(held);
    return promise;
  }

  #start(held: Held): void {
    this.#running.add(held);
    const deltas = held.tell && !held.failure ? this.#deltasOf(held.request) : [];
    this.#advance(held, deltas, this.#latencyOf(held.request) / (deltas.length + 1));
  }

  /** Reports the next word after a share of the latency; after the last one, answers. */
  #advance(held: Held, deltas: readonly AnswerDelta[], waitMs: number, at = 0): void {
    const step = () => {
      // It may have been aborted, or rejected with the engine, since this was queued.
      if (!this.#running.has(held)) return;
      const delta = deltas[at];
      if (delta === undefined) return this.#finish(held);
      held.tell!(delta);
      this.#advance(held, deltas, waitMs, at + 1);
    };
    if (waitMs > 0) held.cancelTimer = this.#context.clock.schedule(waitMs, step);
    else queueMicrotask(step);
  }

  #deltasOf(request: InferenceRequest): readonly AnswerDelta[] {
    try {
      return this.#answers.deltas(request);
    } catch {
      // The answer reports the fault.
      return [];
    }
  }

  #finish(held: Held): void {
    try {
      this.#requestLog?.flush();
      if (held.failure) return this.#fail(held, held.failure);
      const seconds = (this.#context.clock.monotonic() - held.askedMs) / 1000;
      const response = this.#answers.respond(held.request, seconds);
      this.#release(held);
      held.resolve(response);
    } catch (error) {
      this.#release(held);
      held.reject(error);
    }
  }

  #fail(held: Held, kind: FakeFailureKind): void {
    const detail = `row ${(held.request.origin ?? noOrigin).index}, kind ${kind}`;
    // Like user code that never ends.
    // The thread is held, and no core.
    while (kind === "stall-worker") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (kind === "kill-engine" || kind === "kill-worker") {
      if (kind === "kill-worker") this.#context.killProcess();
      return this.#rejectAll(new SluiceError("ENGINE_DIED", `the fake engine: ${detail}`));
    }
    this.#release(held);
    held.reject(new SluiceError(failureCodes[kind], `the fake engine: ${detail}`));
  }

  /** Removes a request and lets the next one in. */
  #release(held: Held): void {
    held.cancelTimer?.();
    this.#watch.remove(held.signal, held);
    this.#waiting.delete(held);
    if (!this.#running.delete(held)) return;
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      return this.#start(next);
    }
  }

  #rejectAll(error: SluiceError): void {
    const all = [...this.#running, ...this.#waiting];
    this.#running.clear();
    this.#waiting.clear();
    for (const held of all) {
      held.cancelTimer?.();
      this.#watch.remove(held.signal, held);
      held.reject(error);
    }
  }

  #latencyOf(request: InferenceRequest): number {
    const latency = this.#latencyMs;
    if (typeof latency === "number") return latency;
    const share = this.#answers.hash(request) / 0x1_0000_0000;
    if ("mean" in latency) return -latency.mean * Math.log(1 - share);
    return latency.min + share * (latency.max - latency.min);
  }
}

/** A request in flight. */
interface Held extends Abortable {
  request: InferenceRequest;
  signal: AbortSignal;
  failure: FakeFailureKind | undefined;
  askedMs: number;
  cancelTimer: (() => void) | undefined;
  tell: OnDelta | undefined;
  resolve: (response: InferenceResponse) => void;
  reject: (reason: unknown) => void;
}

const failureCodes = {
  retryable: "FAKE_FAILURE",
  refused: "REQUEST_REFUSED",
  invalid: "ANSWER_INVALID",
  "fatal-run": "AUTHENTICATION_FAILED",
} as const;
