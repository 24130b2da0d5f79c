import { availableParallelism, freemem } from "node:os";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { Choices, HostedEngine } from "../host/protocol.ts";
import { ChatTemplate, type PromptPiece } from "./chat-template.ts";
import { contextShape } from "./context-shape.ts";
import { Generation } from "./generation.ts";
import { checkGgufFile } from "./gguf-file.ts";
import { LineSpeller } from "./line-speller.ts";
import { type LoadedLlama, loadLlama } from "./node-llama-cpp.ts";
import { type PromptTokenizer, promptTokens } from "./prompt-tokens.ts";
import { Scheduler } from "./scheduler.ts";
import { Vocabulary } from "./vocabulary.ts";

/** What the worker tells the host about the model; all but the paths may be left to the host. */
export interface HostedLlamaOptions {
  /** node-llama-cpp's main module. */
  modulePath: string;
  modelPath: string;
  sequences?: number;
  contextTokens?: number;
  threads?: number;
  batchTokens?: number;
}

/** Requests held for each that is computed, so that a freed sequence never waits for the worker. */
const requestsPerSequence = 2;

/**
 * Loads a GGUF model in this process, which is an engine host.
 *
 * @throws SluiceError that names the model's or the library's fault.
 */
export async function openHostedLlama(options: Json): Promise<HostedEngine> {
  const asked = options as unknown as HostedLlamaOptions;
  await checkGgufFile(asked.modelPath);
  const loaded = await loadLlama({
    modulePath: asked.modulePath,
    modelPath: asked.modelPath,
    shape: ({ model, gpu, mathCores }) =>
      contextShape(asked, {
        metadata: model.fileInfo.metadata,
        trainedTokens: model.trainContextSize,
        freeBytes: gpu === false ? freemem() : undefined,
        cores: Math.max(1, Math.min(availableParallelism(), mathCores)),
      }),
  });
  return new HostedLlama(asked, loaded);
}

class HostedLlama implements HostedEngine {
  readonly name: string;
  readonly capacity: number;
  readonly choices: Choices;
  readonly #loaded: LoadedLlama;
  readonly #vocabulary: Vocabulary;
  readonly #tokenizer: PromptTokenizer;
  readonly #scheduler: Scheduler;
  readonly #failed = Promise.withResolvers<never>();
  #template: ChatTemplate | undefined;

  constructor(options: HostedLlamaOptions, loaded: LoadedLlama) {
    const { shape, gpu, gpuLayers } = loaded;
    this.#loaded = loaded;
    this.name = basename(options.modelPath, ".gguf");
    this.capacity = shape.sequences * requestsPerSequence;
    this.choices = { ...shape, gpu, gpuLayers, modelFile: basename(options.modelPath) };
    this.#vocabulary = vocabularyOf(loaded);
    this.#tokenizer = tokenizerOf(loaded);
    this.#failed.promise.catch(() => {});
    this.#scheduler = new Scheduler(loaded, shape, this.#failed.reject);
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    const { parameters, slottedLine } = request;
    const pieces = this.#piecesOf(request);
    const prompt = promptTokens(pieces, this.#tokenizer, {
      contextTokens: this.#loaded.shape.contextTokens,
      maxNewTokens: parameters.maxNewTokens,
      policy: request.onTooLong,
    });
    if (prompt.length === 0) throw new SluiceError("REQUEST_REFUSED", "the prompt is empty");
    const speller =
      slottedLine &&
      new LineSpeller(slottedLine, spaceAfter(pieces), this.#vocabulary, (text) =>
        this.#tokenizer.tokenize(text, false, false),
      );
    const vocabulary = this.#vocabulary;
    const generation = new Generation({ prompt, parameters, vocabulary, speller });
    const running = this.#scheduler.run(generation, signal);
    const { answer, usage } = await Promise.race([running, this.#failed.promise]);
    return { answers: [answer], usage, seconds: 0 };
  }

  async close(): Promise<void> {
    await this.#scheduler.close();
    await this.#loaded.dispose();
  }

  #piecesOf({ messages, prompt }: InferenceRequest): PromptPiece[] {
    if (messages === undefined) return [{ kind: "content", text: prompt ?? "", message: 0 }];
    this.#template ??= templateOf(this.#loaded);
    return this.#template.render(messages);
  }
}

/** What stands between a prompt and a line: a word after a word or a colon wants a space. */
function spaceAfter(pieces: readonly PromptPiece[]): string {
  return /[\p{L}\p{N}.:;,?!]$/u.test(pieces.at(-1)?.text ?? "") ? " " : "";
}

function templateOf({ model }: LoadedLlama): ChatTemplate {
  const source = model.fileInfo.metadata.tokenizer?.chat_template;
  if (source === undefined) {
    throw new SluiceError("MODEL_TEMPLATE_UNUSABLE", "the model has none; it is no chat model");
  }
  const { bosString, eosString } = model.tokens;
  return new ChatTemplate(source, { bos: bosString ?? "", eos: eosString ?? "" });
}

function tokenizerOf({ model }: LoadedLlama): PromptTokenizer {
  const { bos, shouldPrependBosToken } = model.tokens;
  return {
    firstToken: shouldPrependBosToken && bos !== null ? bos : undefined,
    tokenize: (text, withSpecialTokens, isFirst) =>
      model.tokenize(text, withSpecialTokens, isFirst ? undefined : "trimLeadingSpace"),
  };
}

function vocabularyOf({ model }: LoadedLlama): Vocabulary {
  let size = 0;
  for (const token of model.iterateAllTokens()) size = Math.max(size, token + 1);
  return new Vocabulary({
    size,
    kind: model.vocabularyType,
    text: (token) => model._model.getTokenString(token),
    attributes: (token) => model._model.getTokenAttributes(token),
    isEnd: (token) => model.isEogToken(token),
  });
}
