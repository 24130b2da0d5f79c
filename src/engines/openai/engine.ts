import { SluiceError } from "../../foundation/errors.ts";
import {
  contentText,
  type InferenceRequest,
  type InferenceResponse,
  type OnDelta,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { type Batched, batched } from "../batching/batched.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { EndpointPool } from "./endpoint-pool.ts";
import { GenerationCall } from "./generation-call.ts";
import { imageAddress } from "./image.ts";
import type { OpenaiModelOptions } from "./options.ts";
import { bodyFields, RequestWriter } from "./request-body.ts";
import { RequestSender } from "./request-sender.ts";
import { PrefixKeys } from "./routing/prefix-keys.ts";
import { withStructureHint } from "./structured-output.ts";
import { transcriptionCall } from "./transcription.ts";
import { EmbeddingModel, type EmbeddingRequest } from "./vectors.ts";

/** Embedding requests in flight to one server, by default. */
const defaultEmbeddingRequests = 8;

type Answered = Omit<InferenceResponse, "seconds">;

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
  #vectors: Batched<EmbeddingRequest, Answered> | undefined;
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
    this.#checkWords(request);
    const { clock } = this.#context;
    const startMs = clock.monotonic();
    const { answers, usage } = await this.#answer(request, signal, onDelta);
    this.#checkContext(usage.promptTokens);
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

  #openVectors(): Batched<EmbeddingRequest, Answered> {
    const { name, extraBody, maxInFlight } = this.#options;
    const { maxBatchRows = limits.defaultEmbeddedTexts } = this.#options;
    const fields = bodyFields(name, extraBody as JsonObject | undefined);
    const atOnce = (maxInFlight ?? defaultEmbeddingRequests) * this.#pool.left.length;
    const models = Array.from({ length: atOnce }, () => new EmbeddingModel(this.#sender, fields));
    return batched(models, { maxBatchRows }, this.#context);
  }

  /** A prompt that cannot fit is not paid for. */
  #checkWords(request: InferenceRequest): void {
    const { contextTokens } = this.#options;
    if (contextTokens === undefined) return;
    const words = leastTokens(request, contextTokens + 1);
    if (words <= contextTokens) return;
    const detail = `more than ${contextTokens} words, contextTokens is ${contextTokens}`;
    throw new SluiceError("PROMPT_TOO_LONG", detail, { hint: "shorten the prompt" });
  }

  /** For servers that cut a prompt silently, if the job gives the context's size. */
  #checkContext(promptTokens: number): void {
    const { contextTokens } = this.#options;
    if (contextTokens === undefined || promptTokens <= contextTokens) return;
    const detail = `${promptTokens} tokens, contextTokens is ${contextTokens}`;
    throw new SluiceError("PROMPT_TOO_LONG", detail, { hint: "shorten the prompt" });
  }
}

const word = /\S+/g;

/**
 * A lower bound of a prompt's tokens, without the server's tokenizer: its words, since a tokenizer
 * cuts text at white space before anything else. The true number is usually a third more, and far
 * more in languages without spaces.
 *
 * @param enough counting ends here.
 */
export function leastTokens(
  { messages, prompt = "" }: Pick<InferenceRequest, "messages" | "prompt">,
  enough: number,
): number {
  const texts = messages?.map(({ content }) => contentText(content)) ?? [prompt];
  let words = 0;
  for (const text of texts) {
    for (const _ of text.matchAll(word)) if (++words >= enough) return words;
  }
  return words;
}
