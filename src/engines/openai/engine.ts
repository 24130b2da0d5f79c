import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { type Batched, batched } from "../batching/batched.ts";
import type { Engine, EngineContext } from "../engine.ts";
import type { Answered } from "./call.ts";
import { checkContext, checkWords } from "./context-length.ts";
import { EndpointPool } from "./endpoint-pool.ts";
import { GenerationCall } from "./generation-call.ts";
import { imageAddress } from "./image.ts";
import type { OpenaiModelOptions } from "./options.ts";
import { bodyFields, RequestWriter } from "./request-body.ts";
import { RequestSender } from "./request-sender.ts";
import { PrefixKeys } from "./routing/prefix-keys.ts";
import { withStructureHint } from "./structured-output.ts";
import { transcriptionCall } from "./transcription.ts";
import { embeddingModel } from "./vectors.ts";

/** Embedding requests in flight to one server, by default. */
const defaultEmbeddingRequests = 8;

/**
 * Opens an engine for an OpenAI-compatible server, or several with the same model. Nothing is sent
 * before the first `infer`.
 *
 * @throws SluiceError `ENV_MISSING` if `apiKeyEnv` names a variable that is not set, `JOB_INVALID`
 *   if a key cannot be in a header, or a proxy is not an http or https address;
 *   `ENGINE_START_FAILED` if the file of `SSL_CERT_FILE` cannot be used.
 * @example
 * const options = modelOptions.parse({ engine: "openai", name: "qwen", baseUrl });
 * const engine = openOpenai(options, context);
 * await engine.infer(request, signal);
 */
export function openOpenai(options: OpenaiModelOptions, context: EngineContext): Engine {
  return new OpenaiEngine(options, context);
}

class OpenaiEngine implements Engine {
  readonly name = "openai";
  readonly #options: OpenaiModelOptions;
  readonly #context: EngineContext;
  readonly #pool: EndpointPool;
  readonly #sender: RequestSender;
  readonly #prefixKeys: PrefixKeys | undefined;
  readonly #writers: Readonly<Record<"itself" | "compatible", RequestWriter>>;
  /** Made for the first embedding request. */
  #vectors: Batched<InferenceRequest, Answered> | undefined;
  #closedBy: SluiceError | undefined;

  constructor(options: OpenaiModelOptions, context: EngineContext) {
    const { name, structuredOutput } = options;
    this.#options = options;
    this.#context = context;
    this.#pool = new EndpointPool(options, context);
    this.#sender = new RequestSender(this.#pool);
    this.#prefixKeys = this.#pool.hasSeveral ? new PrefixKeys() : undefined;
    const extraBody = options.extraBody as JsonObject | undefined;
    const writer = (isItself: boolean) =>
      new RequestWriter(name, isItself, structuredOutput, extraBody);
    this.#writers = { itself: writer(true), compatible: writer(false) };
  }

  get capacity(): number {
    return Math.max(this.#pool.capacity, this.#vectors?.capacity ?? 0);
  }

  /** The present limit of requests in flight of each endpoint, as far as it is known. */
  get choices(): Readonly<Record<string, Json>> {
    const { endpoints } = this.#pool;
    return {
      endpoints: endpoints.map(({ address, pace }) => ({ endpoint: address, ...pace.choices })),
    };
  }

  async infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    checkWords(request, this.#options);
    const { clock } = this.#context;
    const startMs = clock.monotonic();
    const { answers, usage } = await this.#answer(request, signal, onDelta);
    checkContext(usage, this.#options);
    return { answers, usage, seconds: (clock.monotonic() - startMs) / 1000 };
  }

  async close(): Promise<void> {
    if (this.#closedBy) return;
    this.#closedBy = new SluiceError("ENGINE_DIED", "it was closed");
    this.#sender.close(this.#closedBy);
    await this.#pool.close(this.#closedBy);
    await this.#vectors?.close();
  }

  #answer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<Answered> {
    if (request.embed) return this.#embed(request, signal);
    if (request.file === undefined) return this.#generate(request, undefined, signal, onDelta);
    if (request.messages === undefined) return this.#transcribe(request, signal);
    return imageAddress(request.file).then((image) =>
      this.#generate(request, image, signal, onDelta),
    );
  }

  #generate(
    request: InferenceRequest,
    image: string | undefined,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<Answered> {
    const key = this.#prefixKeys?.keyOf(request);
    const call = new GenerationCall(request, key, this.#writerFor, image, onDelta);
    const answer = this.#sender.send(call, request, signal);
    return request.structure || request.slottedLine ? this.#hinted(answer, request) : answer;
  }

  async #hinted(answer: Promise<Answered>, request: InferenceRequest): Promise<Answered> {
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      throw withStructureHint(error, request, this.#options.structuredOutput);
    }
  }

  async #transcribe(request: InferenceRequest, signal: AbortSignal): Promise<Answered> {
    const { name, extraBody } = this.#options;
    const fields = { model: name, ...extraBody } as JsonObject;
    const call = await transcriptionCall(request, fields, this.#context.random);
    return this.#sender.send(call, request, signal);
  }

  readonly #writerFor = (isOpenaiItself: boolean): RequestWriter =>
    isOpenaiItself ? this.#writers.itself : this.#writers.compatible;

  #embed(request: InferenceRequest, signal: AbortSignal): Promise<Answered> {
    this.#vectors ??= this.#openVectors();
    return this.#vectors.infer(request, {}, signal);
  }

  #openVectors(): Batched<InferenceRequest, Answered> {
    const { name, extraBody, maxInFlight } = this.#options;
    const { maxBatchRows = limits.defaultEmbeddedTexts } = this.#options;
    const fields = bodyFields(name, extraBody as JsonObject | undefined);
    const atOnce = (maxInFlight ?? defaultEmbeddingRequests) * this.#pool.endpoints.length;
    const models = Array.from({ length: atOnce }, () => embeddingModel(this.#sender, fields));
    return batched(models, { maxBatchRows }, this.#context);
  }
}
