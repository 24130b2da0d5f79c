import { errorFromRecord, SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import type { Engine, EngineContext, PromptWords, TokenizedPrompts } from "../engine.ts";
import { EndedEarly, Restarting, withoutFrames } from "../restarting.ts";
import type { PromptPiece } from "../weights/chat-template.ts";
import { type HostEnd, type HostProcess, startHostProcess } from "./process.ts";
import {
  type BatchReply,
  type Choices,
  type FromHost,
  type HostedKind,
  hostProtocol,
  type PieceTokens,
  type ToHost,
  type TokenRequest,
} from "./protocol.ts";

/** Time for an engine host to leave while it still computes. */
const busyHostGraceMs = 1000;

export interface HostedEngineOptions {
  kind: HostedKind;
  /** Passed to the implementation in the host. */
  options: Json;
  context: HostContext;
  /** Parallel native calls in the host; default 1. */
  nativeCalls?: number | undefined;
  spawn?: Spawn;
  /** Longest time for the engine to get ready, if the job has a key with this name. */
  loadTimeoutMs?: number;
  /** Called now and then while the host fetches what it loads: that time does not count. */
  onFetch?: ((bytes: number) => void) | undefined;
  /** Ends the opening. */
  signal?: AbortSignal | undefined;
}

/** What hosting needs of the outside world. */
export type HostContext = Pick<
  EngineContext,
  "clock" | "random" | "logger" | "environment" | "hostCommand" | "onBatch"
>;

/**
 * Opens an engine in a separate process, so that this process survives every fault of it. When the
 * host dies, all its requests are rejected with `ENGINE_DIED`; the next `infer` starts it again,
 * after a growing wait.
 *
 * @throws SluiceError the engine's own error if it refuses to open, `ENGINE_START_FAILED` with its
 *   last lines if its process ends or hangs before it is ready; the signal's reason.
 */
export async function openHostedEngine(options: HostedEngineOptions): Promise<HostedClient> {
  const { signal } = options;
  signal?.throwIfAborted();
  const engine = new HostedEngineClient(options);
  const stop = () => void engine.close();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    await engine.open();
    return engine;
  } finally {
    signal?.removeEventListener("abort", stop);
    signal?.throwIfAborted();
  }
}

/** An engine in a host, seen from its worker. */
export interface HostedClient extends Engine {
  /**
   * Has a batch computed, if the hosted engine takes batches. A batch that takes longer than
   * `timeoutMs` ends the host, which is started again for the next one. If `signal` is aborted, the
   * host is told, and its reply is awaited.
   *
   * @throws SluiceError of scope `engine` if it died or was too late, or its error for the whole
   *   batch.
   */
  runBatch(
    items: readonly Json[],
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<readonly BatchReply[]>;
  /** The host's facts about its model, if it is a host of another language. */
  readonly model: Json | undefined;
  /** @param request in tokens for a host of another language. */
  infer(
    request: InferenceRequest | TokenRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse>;
  /** Has such a host tokenize the pieces of prompts. */
  tokenizePieces(
    prompts: readonly (readonly PromptPiece[])[],
    signal?: AbortSignal,
  ): Promise<PieceTokens>;
}

/** Messages of this side: each host gets those that it understands. */
type Said = ToHost<InferenceRequest | TokenRequest, PromptWords | readonly PromptPiece[]>;

/** The reply to a message: a response, or tokens. */
interface Held {
  resolve: (answer: never) => void;
  reject: (error: unknown) => void;
  onDelta?: OnDelta | undefined;
}

class HostedEngineClient implements HostedClient {
  name = "";
  capacity = 1;
  concurrency: number | undefined;
  choices: Choices = {};
  model: Json | undefined;
  tokenize?: NonNullable<Engine["tokenize"]>;
  readonly #options: HostedEngineOptions;
  readonly #held = new Map<number, Held>();
  #nextId = 0;
  /** The host that is ready and has not ended. */
  #live: HostProcess | undefined;
  readonly #lives: Restarting<HostProcess>;
  /** Why this side is ending the host. */
  #endedBecause: string | undefined;

  constructor(options: HostedEngineOptions) {
    this.#options = options;
    this.#lives = new Restarting({
      name: "engine host",
      start: () => this.#start(),
      context: options.context,
    });
  }

  /** Starts the host for the first time: a failure is final at once, not tried again. */
  async open(): Promise<void> {
    await this.#lives.open();
  }

  async tokenizePieces(
    prompts: readonly (readonly PromptPiece[])[],
    signal?: AbortSignal,
  ): Promise<PieceTokens> {
    const host = await this.#liveHost(signal);
    return this.#ask(host, { type: "tokenize", id: this.#nextId++, prompts });
  }

  async infer(
    request: InferenceRequest | TokenRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    signal.throwIfAborted();
    const { clock } = this.#options.context;
    const askedAtMs = clock.monotonic();
    const host = await this.#liveHost(signal);
    signal.throwIfAborted();
    const id = this.#nextId++;
    const stopAsking = () => {
      host.channel.send({ type: "infer-abort", id });
      this.#settle(id)?.reject(signal.reason);
    };
    signal.addEventListener("abort", stopAsking, { once: true });
    try {
      const message = { type: "infer", id, request, ...(onDelta && { streams: true }) } as const;
      const response = await this.#ask<InferenceResponse>(host, message, onDelta);
      this.#lives.noteAnswer();
      return { ...response, seconds: (clock.monotonic() - askedAtMs) / 1000 };
    } finally {
      signal.removeEventListener("abort", stopAsking);
    }
  }

  async runBatch(
    items: readonly Json[],
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<readonly BatchReply[]> {
    const host = await this.#liveHost(signal);
    signal.throwIfAborted();
    const id = this.#nextId++;
    const cancelTimeout = this.#options.context.clock.schedule(timeoutMs, () => {
      this.#endedBecause = `no answer to a batch within ${timeoutMs / 1000} s (model.timeoutMs)`;
      host.kill();
    });
    const stopAsking = () => host.channel.send({ type: "infer-abort", id });
    signal.addEventListener("abort", stopAsking, { once: true });
    try {
      const message = { type: "batch", id, items } as const;
      const replies = await this.#ask<readonly BatchReply[]>(host, message);
      this.#lives.noteAnswer();
      return replies;
    } finally {
      cancelTimeout();
      signal.removeEventListener("abort", stopAsking);
    }
  }

  #ask<Answer>(
    host: HostProcess,
    message: Said & { type: "infer" | "batch" | "tokenize" },
    onDelta?: OnDelta,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#held.set(message.id, { resolve, reject, onDelta });
      host.channel.send(message);
    });
  }

  readonly #tokenize = async (prompts: readonly PromptWords[]): Promise<TokenizedPrompts> => {
    const host = await this.#liveHost();
    return this.#ask(host, { type: "tokenize", id: this.#nextId++, prompts });
  };

  async close(): Promise<void> {
    const ended = this.#lives.close();
    // A host that did not answer during the wait may never do.
    const graceMs = this.#held.size > 0 ? busyHostGraceMs : limits.stopGraceMs;
    this.#rejectAll(this.#lives.closing.reason);
    const host = await ended;
    if (host === undefined) return;
    host.channel.send({ type: "host-close" });
    const cancelKill = this.#options.context.clock.schedule(graceMs, host.kill);
    await host.ended;
    cancelKill();
  }

  /** The living host, which nothing has ended since. */
  async #liveHost(signal?: AbortSignal): Promise<HostProcess> {
    const host = await this.#lives.live(this.#live ? undefined : signal);
    this.#lives.closing.throwIfAborted();
    if (host === this.#live) return host;
    throw new SluiceError("ENGINE_DIED", "it ended during a request");
  }

  async #start(): Promise<HostProcess> {
    const { context, spawn, kind, options, nativeCalls } = this.#options;
    const host = startHostProcess({
      command: context.hostCommand,
      environment: context.environment,
      onLine: (line) => context.logger.log("debug", line, { host: kind }),
      clock: context.clock,
      nativeCalls,
      spawn,
    });
    // Without its channel a host is useless, whatever it still does.
    host.channel.onClose(() => {
      // A host that just ended has yet to report how.
      const cancel = context.clock.schedule(limits.maxHostOutputWaitMs, host.kill);
      void host.ended.then(cancel);
    });
    void host.ended.then((end) => this.#onEnd(host, end));
    const ready = this.#awaitReady(host);
    host.channel.send({ type: "host-open", protocol: hostProtocol, kind, options });
    await ready;
    return host;
  }

  #awaitReady(host: HostProcess): Promise<void> {
    const { clock } = this.#options.context;
    const { loadTimeoutMs, onFetch } = this.#options;
    const timeoutMs = loadTimeoutMs ?? limits.workerReadyTimeoutMs;
    let isLate = false;
    return new Promise((resolve, reject) => {
      const giveUpLater = () =>
        clock.schedule(timeoutMs, () => {
          isLate = true;
          host.kill();
        });
      let cancelTimeout = giveUpLater();
      const stop = () => host.kill();
      this.#lives.closing.addEventListener("abort", stop, { once: true });
      void host.ended.then(({ how, lines }) => {
        cancelTimeout();
        this.#lives.closing.removeEventListener("abort", stop);
        reject(isLate ? lateStart(timeoutMs, loadTimeoutMs, lines) : new EndedEarly(how, lines));
      });
      host.channel.onMessage((message) => {
        if (message.type === "host-ready") {
          cancelTimeout();
          this.#lives.closing.removeEventListener("abort", stop);
          this.#live = host;
          this.name = message.name;
          this.capacity = message.capacity;
          this.concurrency = message.concurrency;
          this.choices = message.choices;
          this.model = message.model;
          if (message.tokenizes) this.tokenize = this.#tokenize;
          resolve();
        } else if (message.type === "host-fetching") {
          cancelTimeout();
          cancelTimeout = giveUpLater();
          onFetch?.(message.bytes);
        } else if (message.type === "host-failed") {
          cancelTimeout();
          reject(errorFromRecord(message.error));
        } else if (message.type === "infer-deltas") {
          for (const { id, ...delta } of message.deltas) this.#held.get(id)?.onDelta?.(delta);
        } else if (message.type === "batch-formed") {
          this.#options.context.onBatch?.(message.requests);
        } else this.#onAnswer(message);
      });
    });
  }

  #onAnswer(
    message: FromHost & { type: "infer-end" | "infer-fail" | "tokenize-end" | "batch-end" },
  ): void {
    const held = this.#settle(message.id);
    if (message.type === "infer-end") held?.resolve(message.response as never);
    else if (message.type === "batch-end") held?.resolve(message.replies as never);
    else if (message.type === "tokenize-end") held?.resolve(message.tokenized as never);
    else held?.reject(errorFromRecord(message.error));
  }

  #onEnd(host: HostProcess, { how, lines }: HostEnd): void {
    // A host that never got ready rejects its start instead, and holds no requests.
    if (host !== this.#live) return;
    this.#live = undefined;
    if (!this.#lives.noteDeath()) return;
    const late = this.#endedBecause;
    this.#endedBecause = undefined;
    const detail = [late ?? how, ...lastWords(lines)].join("; ");
    this.#options.context.logger.log("warn", `engine host ended: ${detail}`, {
      pid: this.choices.pid,
    });
    this.#rejectAll(new SluiceError(late === undefined ? "ENGINE_DIED" : "ENGINE_STALLED", detail));
  }

  #settle(id: number): Held | undefined {
    const held = this.#held.get(id);
    this.#held.delete(id);
    return held;
  }

  #rejectAll(error: unknown): void {
    const all = [...this.#held.values()];
    this.#held.clear();
    for (const held of all) held.reject(error);
  }
}

/** Runtimes write it before the last line, which is a stack or a version. */
const namesError = /\b[A-Z]\w*Error\b[^:]*: |\bFATAL ERROR\b|\bout of memory\b|\bCUDA error: /i;

/** The best line about the end of a process: the last one that names an error, else the last. */
function lastWords(lines: readonly string[]): string[] {
  const error = lines.findLast((line) => namesError.test(line));
  if (error !== undefined) return [`it wrote: ${error.trim()}`];
  return withoutFrames(lines)
    .slice(-1)
    .map((line) => `its last line: ${line}`);
}

/** It was ended because its loading did not end: another try would take as long. */
function lateStart(
  timeoutMs: number,
  given: number | undefined,
  lines: readonly string[],
): SluiceError {
  const key = given === undefined ? "" : " (loadTimeoutMs)";
  const detail = [`not loaded after ${timeoutMs / 1000} s${key}`, ...lastWords(lines)].join("; ");
  const hint = "raise loadTimeoutMs, or find out what its loading waits for";
  return new SluiceError("ENGINE_START_FAILED", detail, given === undefined ? {} : { hint });
}
