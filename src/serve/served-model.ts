import type { Engine, EngineContext } from "../engines/engine.ts";
import { describeEngine, openEngine } from "../engines/registry.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import {
  estimatedTokens,
  type InferenceRequest,
  type InferenceResponse,
  type OnDelta,
  promptCharacters,
  samplingTemperature,
  type Usage,
} from "../foundation/inference.ts";
import type { JsonObject } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import { randomInteger } from "../foundation/random.ts";
import { withResponseBodies } from "../prompt/openai-batch/response-body.ts";
import type { PromptSet } from "../prompt/prompt-set.ts";
import { askUntilAccepted } from "../run/execute/tries.ts";
import { generationParameters } from "../run/job/generation.ts";
import { requestPromptSet } from "../run/plan/job-prompts.ts";
import { Admission, type Leave, type Turn } from "./admission.ts";
import type { ServedModelOptions, ServeLimits } from "./options.ts";
import type { Caller } from "./tokens.ts";

/** One call of a client. */
export interface Call {
  caller: Caller;
  /** Aborted when the client has left, or when the time of the call is over. */
  signal: AbortSignal;
  /** Longest wait for the model; default: the server's. */
  maxWaitMs?: number | undefined;
  /** Aborted when the call may wait no longer for the model; what is in work goes on. */
  stopped?: AbortSignal | undefined;
  onDelta?: OnDelta | undefined;
}

/** The requests of a call, and what makes an OpenAI body of their responses. */
export interface Asked {
  requests: readonly InferenceRequest[];
  bodyOf(responses: readonly InferenceResponse[]): JsonObject;
}

/** What a model tells of each of its requests. */
export interface ModelObserver {
  /** @param waitMs time before its turn. */
  admitted(model: string, priority: string, waitMs: number): void;
  answered(model: string, facts: AnswerFacts): void;
  failed(model: string, code: string): void;
}

/** An answered request, from its turn on. */
export interface AnswerFacts {
  usage: Usage;
  durationMs: number;
  /** Time to the first piece of a streamed answer. */
  firstPieceMs: number | undefined;
}

/** What all models of a server share. */
interface Serving {
  limits: ServeLimits;
  observer: ModelObserver;
}

/** A loaded model behind its door: every wire asks it, and so do the rows of batches. */
export class ServedModel {
  readonly name: string;
  /** Seconds since 1970 at which it was loaded. */
  readonly created: number;
  readonly admission: Admission;
  readonly #engine: Engine;
  readonly #prompts: PromptSet;
  readonly #context: EngineContext;
  readonly #maxTries: number;
  readonly #observer: ModelObserver;
  #calls = 0;

  private constructor(
    name: string,
    engine: Engine,
    given: ServedModelOptions,
    { limits: serveLimits, observer }: Serving,
    context: EngineContext,
  ) {
    const { clock, random } = context;
    this.name = name;
    this.created = Math.floor(clock.now() / 1000);
    this.#engine = engine;
    this.#context = context;
    this.#maxTries = serveLimits.maxTries;
    this.#observer = observer;
    this.#prompts = promptsOf(name, given, randomInteger(random, 2 ** 31));
    const { maxQueueSize = serveLimits.maxQueueSize, maxQueueWaitMs = serveLimits.maxQueueWaitMs } =
      given;
    this.admission = new Admission(() => this.slots, { maxQueueSize, maxQueueWaitMs }, clock);
  }

  /** @throws SluiceError the engine's reason why it cannot be opened. */
  static async open(
    name: string,
    given: ServedModelOptions,
    serving: Serving,
    context: EngineContext,
  ): Promise<ServedModel> {
    const engine = await openEngine(given.model, context);
    return new ServedModel(name, engine, given, serving, context);
  }

  /** What the engine chose, for the log. */
  get choices(): Engine["choices"] {
    return this.#engine.choices;
  }

  /** Requests that it computes at once. */
  get slots(): number {
    return this.#engine.concurrency ?? this.#engine.capacity;
  }

  /**
   * Reads the body of one of OpenAI's calls.
   *
   * @param url as in the lines of a batch, such as `/v1/chat/completions`.
   * @throws SluiceError as `readBatchLine`.
   */
  read(url: string, body: JsonObject): Asked {
    const index = this.#calls++;
    const line = { custom_id: "call", method: "POST", url, body };
    const requests = this.#prompts.requests(line, index);
    return {
      requests,
      bodyOf: (responses) => this.#prompts.answer(requests, responses) as JsonObject,
    };
  }

  /**
   * Answers the requests of a call, all at once. A request whose model died, or whose answer has a
   * wrong form, is sent again, unless a part of its answer has been reported.
   *
   * @throws SluiceError the failure of the first request that fails; the reason of the signal.
   */
  async ask({ requests }: Asked, call: Call): Promise<InferenceResponse[]> {
    const [only, ...others] = requests;
    if (only && others.length === 0) return [await this.#answer(only, call, call.signal)];
    const failed = new AbortController();
    const signal = AbortSignal.any([call.signal, failed.signal]);
    try {
      return await Promise.all(requests.map((request) => this.#answer(request, call, signal)));
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  }

  /** Refuses what waits; requests in work go on. */
  refuse(reason: SluiceError): void {
    this.admission.close(reason);
  }

  close(): Promise<void> {
    this.refuse(new SluiceError("ENGINE_DIED", `${this.name} was unloaded`));
    return this.#engine.close();
  }

  #answer(
    request: InferenceRequest,
    { onDelta, ...call }: Call,
    signal: AbortSignal,
  ): Promise<InferenceResponse> {
    let isTold = false;
    const tell: OnDelta | undefined =
      onDelta &&
      ((delta) => {
        isTold = true;
        onDelta(delta);
      });
    const { clock, random } = this.#context;
    const ask = (next: InferenceRequest) => {
      if (isTold) throw new SluiceError("ENGINE_DIED", "while the answer was sent");
      return this.#inTurn(next, call, signal, tell);
    };
    return askUntilAccepted(ask, request, {
      ...{ promptSet: this.#prompts, maxTries: this.#maxTries, clock, random, signal },
      mayPass: (error) => error.scope === "engine" && !isTold,
    });
  }

  async #inTurn(
    request: InferenceRequest,
    { caller, maxWaitMs, stopped }: Omit<Call, "onDelta">,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<InferenceResponse> {
    const { name, weight, priority } = caller;
    const turn = { caller: name, weight, cost: costOf(request), priority, maxWaitMs };
    const { clock } = this.#context;
    const cameMs = clock.monotonic();
    try {
      const leave = await this.#enter(turn, signal, stopped);
      const begunMs = clock.monotonic();
      this.#observer.admitted(this.name, priority, begunMs - cameMs);
      try {
        return await this.#observed(request, signal, onDelta, begunMs);
      } finally {
        leave();
      }
    } catch (thrown) {
      this.#observer.failed(this.name, asSluiceError(thrown).code);
      throw thrown;
    }
  }

  async #observed(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
    begunMs: number,
  ): Promise<InferenceResponse> {
    const { clock } = this.#context;
    let firstPieceMs: number | undefined;
    const tell: OnDelta | undefined =
      onDelta &&
      ((delta) => {
        firstPieceMs ??= clock.monotonic() - begunMs;
        onDelta(delta);
      });
    const response = await this.#engine.infer(request, signal, tell);
    const durationMs = clock.monotonic() - begunMs;
    this.#observer.answered(this.name, { usage: response.usage, durationMs, firstPieceMs });
    return response;
  }

  async #enter(turn: Turn, signal: AbortSignal, stopped?: AbortSignal): Promise<Leave> {
    if (stopped === undefined) return await this.admission.enter(turn, signal);
    stopped.throwIfAborted();
    // AbortSignal.any would keep a kilobyte of each row for as long as the batch exists.
    const waiting = new AbortController();
    const end = () => waiting.abort(signal.aborted ? signal.reason : stopped.reason);
    const sources = [signal, stopped];
    for (const source of sources) source.addEventListener("abort", end);
    try {
      if (signal.aborted) end();
      return await this.admission.enter(turn, waiting.signal);
    } finally {
      for (const source of sources) source.removeEventListener("abort", end);
    }
  }
}

/** Tokens of a request and its answers, at most. */
function costOf(request: InferenceRequest): number {
  const { maxNewTokens, numReturnSequences = 1 } = request.parameters;
  const answer = request.embed ? 0 : maxNewTokens * numReturnSequences;
  return 1 + estimatedTokens(promptCharacters(request)) + answer;
}

/** Prompts of calls, whose answers are bodies of OpenAI's responses. */
function promptsOf(
  name: string,
  { model, generation }: ServedModelOptions,
  seed: number,
): PromptSet {
  // Clients of chat services expect samples where they do not say how to choose.
  const sampled = { temperature: samplingTemperature, ...generation };
  const maxNewTokens = describeEngine(model).maxNewTokens ?? limits.maxNewTokens;
  const parameters = generationParameters(sampled, seed, maxNewTokens);
  return withResponseBodies(requestPromptSet(model, ["*"], parameters), name);
}
