import type { Engine, EngineContext } from "../engines/engine.ts";
import {
  firstPieceAttributes,
  requestAttributes,
  requestSpanName,
  responseAttributes,
} from "../engines/gen-ai-attributes.ts";
import { answeredApis, describeEngine } from "../engines/registry.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import {
  type Answer,
  estimatedTokens,
  type InferenceRequest,
  type InferenceResponse,
  type OnDelta,
  promptCharacters,
  type SamplingParameters,
  samplingTemperature,
  type Transcription,
  type Usage,
} from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
import { randomInteger } from "../foundation/random.ts";
import {
  isSampled,
  type Span,
  type Telemetry,
  type TraceContext,
} from "../foundation/telemetry.ts";
import { wireTable } from "../foundation/wire-table.ts";
import { withResponseBodies } from "../prompt/openai-batch/response-body.ts";
import type { PromptSet } from "../prompt/prompt-set.ts";
import { rowPromptSet } from "../prompt/row-prompt-set.ts";
import { sendUntilAccepted } from "../run/execute/tries.ts";
import { generationParameters } from "../run/job/generation.ts";
import { requestPromptSet } from "../run/plan/job-prompts.ts";
import { ModelQueue } from "./model-queue.ts";
import type { ServedModelOptions, ServeLimits } from "./options.ts";
import { placedWorkers, type SharedResources } from "./placed-workers.ts";
import { Suspects } from "./suspects.ts";
import type { Caller } from "./tokens.ts";
import type { Workers } from "./workers.ts";

export interface Call {
  caller: Caller;
  /** Aborted when the client has left, or when the time of the call is over. */
  signal: AbortSignal;
  /** Aborted when its requests may not wait for their turns any more; those in work go on. */
  shut?: AbortSignal | undefined;
  /** Longest wait for the model; default: the server's. */
  maxWaitMs?: number | undefined;
  onDelta?: OnDelta | undefined;
  /** The span of the call, where the server is traced. */
  trace?: TraceContext | undefined;
  /** What its row or file says, if these differ each time. */
  content?: Json | undefined;
  /** Called when the turn of one of its requests has come. */
  onTurn?: ((waitMs: number) => void) | undefined;
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
  batchFormed(model: string, requests: number): void;
}

/** The context of a model's engines, by which the observer learns of their batches. */
export function observedContext<Context extends EngineContext>(
  context: Context,
  model: string,
  observer: ModelObserver,
): Context {
  return { ...context, onBatch: (requests) => observer.batchFormed(model, requests) };
}

/** An answered request, from its turn on. */
export interface AnswerFacts {
  usage: Usage;
  durationMs: number;
  /** Time to the first piece of a streamed answer. */
  firstPieceMs: number | undefined;
}

/** What all models of a server share. */
export interface Serving {
  limits: ServeLimits;
  observer: ModelObserver;
}

/** A loaded model behind its door: every wire asks it, and so do the rows of batches. */
export class ServedModel {
  readonly name: string;
  /** Seconds since 1970 at which it was loaded. */
  readonly created: number;
  readonly queue: ModelQueue;
  readonly workers: Workers;
  /** Whether a request may be a row. */
  readonly takesRows: boolean;
  readonly #prompts: PromptSet;
  /** Parameters of transcripts; undefined if the engine makes none. */
  readonly #transcription: SamplingParameters | undefined;
  readonly #rows: PromptSet;
  readonly #context: EngineContext;
  readonly #engine: string;
  readonly #maxTries: number;
  readonly #observer: ModelObserver;
  readonly #suspects = new Suspects();
  /** Signals of calls that ended before their answer, and were counted. */
  readonly #gone = new WeakSet<AbortSignal>();
  /** Tokens of the longest answer so far; at first, those of one whose request sets no limit. */
  #longestAnswer: number;
  #calls = 0;
  /** Requests that wait, are computed or come again. */
  #inWork = 0;
  #onIdle: (() => void) | undefined;

  /** @param workers of this model; their number may be 0, and change. */
  constructor(
    name: string,
    workers: Workers,
    given: ServedModelOptions,
    { limits: serveLimits, observer }: Serving,
    context: EngineContext,
  ) {
    const { clock, random } = context;
    this.name = name;
    this.created = Math.floor(clock.now() / 1000);
    this.workers = workers;
    this.takesRows = describeEngine(given.model).takesRows ?? false;
    this.#context = context;
    this.#engine = given.model.engine;
    this.#maxTries = serveLimits.maxTries;
    this.#observer = observer;
    const seed = randomInteger(random, 2 ** 31);
    const parameters = parametersOf(given, seed);
    this.#longestAnswer = parameters.maxNewTokens;
    if (answeredApis(given.model).transcription) {
      this.#transcription = generationParameters(given.generation, seed, limits.maxNewTokens);
    }
    this.#prompts = withResponseBodies(requestPromptSet(given.model, ["*"], parameters), name);
    this.#rows = rowPromptSet(parameters);
    const { maxQueueSize = serveLimits.maxQueueSize, maxQueueWaitMs = serveLimits.maxQueueWaitMs } =
      given;
    // A longer wait would end by the time of the request, without an answer.
    const longestWaitMs = Math.min(maxQueueWaitMs, serveLimits.requestTimeoutMs);
    const queueLimits = { maxQueueSize, maxQueueWaitMs: longestWaitMs };
    this.queue = new ModelQueue(() => this.slots, queueLimits, clock);
    workers.onGrown = () => this.queue.admitNext();
  }

  /** @throws SluiceError the engine's reason why it cannot be opened. */
  static async open(
    name: string,
    given: ServedModelOptions,
    serving: Serving,
    context: EngineContext & { resources: SharedResources },
  ): Promise<ServedModel> {
    const observed = observedContext(context, name, serving.observer);
    const workers = placedWorkers(given, context.resources, observed);
    await workers.scale(given.workers ?? 1);
    return new ServedModel(name, workers, given, serving, context);
  }

  /** What the engine chose, for the log. */
  get choices(): Engine["choices"] {
    return this.workers.choices;
  }

  /** Requests that it computes at once. */
  get slots(): number {
    return this.workers.concurrency;
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
   * A request for the transcript of a file. The body has its times where they are asked for.
   *
   * @param temperature default: the model's `generation`, else the server's.
   * @throws SluiceError `UNSUPPORTED` if the engine makes no transcripts.
   */
  readFile(
    file: string,
    { temperature, ...transcription }: Transcription & { temperature?: number | undefined },
  ): Asked {
    const common = this.#transcription;
    if (common === undefined) {
      throw new SluiceError("UNSUPPORTED", `${this.name} transcribes nothing; engine openai does`);
    }
    const explicit = [...(common.explicit ?? []), "temperature"];
    const parameters = temperature === undefined ? common : { ...common, temperature, explicit };
    const origin = { index: this.#calls++, promptName: "request" };
    return {
      requests: [{ origin, parameters, file, transcription }],
      bodyOf: ([response]) => {
        const { text, value } = response!.answers[0]!;
        return transcription.times === undefined ? { text } : (value as JsonObject);
      },
    };
  }

  /**
   * Answers the requests of a call, all at once. A request whose model died, or whose answer has a
   * wrong form, is sent again, unless a part of its answer has been reported.
   *
   * @throws SluiceError the failure of the first request that fails; the reason of the signal.
   */
  async ask({ requests }: Asked, call: Call): Promise<InferenceResponse[]> {
    if (requests.length === 1) {
      return [await this.#answer(requests[0]!, call, call.signal, this.#prompts)];
    }
    const failed = new AbortController();
    const signal = AbortSignal.any([call.signal, failed.signal]);
    const answer = (each: InferenceRequest) =>
      this.#answer(each, ofElement(call, each), signal, this.#prompts);
    try {
      return await Promise.all(requests.map(answer));
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  }

  /**
   * Answers a row, as a job without prompts does; only if `takesRows`.
   *
   * @throws SluiceError as `ask`.
   */
  async askRow(row: JsonObject, call: Call): Promise<Answer> {
    const [request] = this.#rows.requests(row, this.#calls++);
    const { answers } = await this.#answer(request!, call, call.signal, this.#rows);
    return answers[0]!;
  }

  /** Unloads it when its calls are answered: for one that gets no more of them. */
  async retire(): Promise<void> {
    if (this.#inWork > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    await this.close();
  }

  /** Refuses what waits; requests in work go on. */
  refuse(reason: SluiceError): void {
    this.queue.close(reason);
  }

  close(): Promise<void> {
    this.refuse(new SluiceError("ENGINE_DIED", `${this.name} was unloaded`));
    return this.workers.close();
  }

  async #answer(
    request: InferenceRequest,
    call: Call,
    signal: AbortSignal,
    promptSet: PromptSet,
  ): Promise<InferenceResponse> {
    const { onDelta } = call;
    let isTold = false;
    const tell: OnDelta | undefined =
      onDelta &&
      ((delta) => {
        isTold = true;
        onDelta(delta);
      });
    const { clock, random } = this.#context;
    const ask = (next: InferenceRequest) => this.#inTurn(next, call, signal, tell);
    this.#inWork++;
    try {
      return await sendUntilAccepted(ask, request, {
        ...{ promptSet, maxTries: this.#maxTries, clock, random, signal },
        // A wait that a server asks for is the caller's.
        mayPass: ({ scope, retryAfterMs }) =>
          !isTold && scope !== "run" && retryAfterMs === undefined,
      });
    } finally {
      this.#inWork--;
      if (this.#inWork === 0) this.#onIdle?.();
    }
  }

  #noteLength({ answers }: InferenceResponse): void {
    for (const { tokens } of answers) this.#longestAnswer = Math.max(this.#longestAnswer, tokens);
  }

  async #inTurn(
    request: InferenceRequest,
    { caller, signal: ofCall, maxWaitMs, onTurn, trace, content, shut }: Call,
    signal: AbortSignal,
    tell: OnDelta | undefined,
  ): Promise<InferenceResponse> {
    const { name, weight, priority } = caller;
    const { clock, telemetry } = this.#context;
    const cameMs = clock.monotonic();
    const spans = trace && ModelSpans.begin(telemetry, trace, request);
    const suspect = { request, content };
    try {
      const isAlone = this.#suspects.mustBeAlone(suspect);
      const cost = costOf(request, this.#longestAnswer);
      const turn = { caller: name, weight, cost, priority, maxWaitMs, isAlone };
      const waiting = shut ? AbortSignal.any([signal, shut]) : signal;
      const entered = this.queue.enter(turn, waiting);
      const leave = entered instanceof Promise ? await entered : entered;
      const begunMs = leave === entered ? cameMs : clock.monotonic();
      this.#observer.admitted(this.name, priority, begunMs - cameMs);
      onTurn?.(begunMs - cameMs);
      spans?.admitted(this.name, this.#engine, request);
      let firstPieceMs: number | undefined;
      const tellFirst: OnDelta | undefined =
        tell &&
        ((delta) => {
          firstPieceMs ??= clock.monotonic() - begunMs;
          tell(delta);
        });
      try {
        const response = await this.workers.infer(request, signal, tellFirst);
        this.#suspects.clear(suspect);
        this.#noteLength(response);
        const durationMs = clock.monotonic() - begunMs;
        const facts = { usage: response.usage, durationMs, firstPieceMs };
        this.#observer.answered(this.name, facts);
        spans?.answered(facts);
        return response;
      } catch (thrown) {
        const isDeath = asSluiceError(thrown).scope === "engine" && !signal.aborted;
        if (isDeath) this.#suspects.noteDeath(suspect, !this.queue.isShared);
        throw thrown;
      } finally {
        leave();
      }
    } catch (thrown) {
      const error = asSluiceError(thrown);
      const { code } = error;
      spans?.failed(code);
      // Another request of its call has failed, and counts.
      if (signal.aborted && (!ofCall.aborted || this.#gone.has(ofCall))) throw thrown;
      if (ofCall.aborted) this.#gone.add(ofCall);
      if (wireTable[code]?.words !== undefined)
        this.#context.logger.log("warn", `${this.name}: ${error.message}`);
      this.#observer.failed(this.name, code);
      throw thrown;
    }
  }
}

/** The call of one of several prompts: its answers come after those of the prompts before it. */
function ofElement(call: Call, { origin, parameters }: InferenceRequest): Call {
  const { onDelta } = call;
  const { numReturnSequences = 1 } = parameters;
  const before = (origin?.element ?? 0) * numReturnSequences;
  if (onDelta === undefined || before === 0) return call;
  return {
    ...call,
    onDelta: ({ choice, ...rest }) => onDelta({ ...rest, choice: before + choice }),
  };
}

/**
 * Tokens of a request and its answers, at most.
 *
 * @param longestAnswer of the model. Clients name limits that no answer reaches: by those, one
 *   request would foretell hours of waiting for all others.
 */
function costOf(request: InferenceRequest, longestAnswer: number): number {
  const { maxNewTokens, numReturnSequences = 1 } = request.parameters;
  const answer = request.embed ? 0 : Math.min(maxNewTokens, longestAnswer) * numReturnSequences;
  return 1 + estimatedTokens(promptCharacters(request)) + answer;
}

function parametersOf({ model, generation }: ServedModelOptions, seed: number): SamplingParameters {
  // Clients of chat services expect samples where they do not say how to choose.
  const sampled = { temperature: samplingTemperature, ...generation };
  const maxNewTokens = describeEngine(model).maxNewTokens ?? limits.maxNewTokens;
  return generationParameters(sampled, seed, maxNewTokens);
}

/** The spans of one request to a model: its wait, and then its time with the engine. */
class ModelSpans {
  readonly #telemetry: Telemetry;
  readonly #parent: TraceContext;
  /** The one that has not ended. */
  #span: Span;

  /**
   * Begins with the wait for the request's turn. A request of a trace that is not recorded has no
   * spans, but carries the trace on.
   */
  static begin(
    telemetry: Telemetry | undefined,
    parent: TraceContext,
    request: InferenceRequest,
  ): ModelSpans | undefined {
    request.trace = parent;
    return telemetry && isSampled(parent) ? new ModelSpans(telemetry, parent) : undefined;
  }

  private constructor(telemetry: Telemetry, parent: TraceContext) {
    this.#telemetry = telemetry;
    this.#parent = parent;
    this.#span = telemetry.start("queue", { parent });
  }

  /** Its turn has come: what the engine traces of the request stands below this. */
  admitted(model: string, engine: string, request: InferenceRequest): void {
    this.#span.end();
    this.#span = this.#telemetry.start(requestSpanName(model, request), {
      parent: this.#parent,
      attributes: requestAttributes(engine, model, request),
    });
    request.trace = this.#span.context;
  }

  answered({ usage, firstPieceMs }: { usage: Usage; firstPieceMs: number | undefined }): void {
    this.#span.set(responseAttributes({ usage }));
    if (firstPieceMs !== undefined) this.#span.set(firstPieceAttributes(firstPieceMs / 1000));
    this.#span.end();
  }

  failed(code: string): void {
    this.#span.fail(code);
    this.#span.end();
  }
}
